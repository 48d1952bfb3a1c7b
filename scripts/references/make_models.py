"""Write small random models in Hugging Face's format: make_models.py FOLDER [CASE...] gives FOLDER/CASE each."""
import sys
from pathlib import Path

from cases import CASES
from models import save_case

if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        save_case(name, Path(sys.argv[1]) / name)
