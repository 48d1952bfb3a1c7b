# zero on Debian 12, in an image of about 8 GB.
#
#   docker build -t zero .
#   docker run --rm -it --shm-size 1g zero                      # README's first command
#   docker run --rm -it --shm-size 1g -v "$PWD/runs:/root/zero/runs" zero \
#     build/bin/zero_launch train --ranks 2 --preset gpt2-10m --data README.md --out runs/first
#   docker run --rm -it --shm-size 1g --gpus all zero build/bin/zero_launch doctor
#
# The last line is for a GPU. The image is the same: CUDA's runtime and compiler come with
# scripts/setup.sh. The host needs NVIDIA's driver and its container toolkit. Ranks of one host share
# memory in /dev/shm, of which Docker gives 64 MB unless --shm-size says more.
FROM debian:bookworm-slim

RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git

WORKDIR /root/zero

# What it needs from elsewhere, apart from the sources, whose changes then fetch nothing again.
COPY scripts/common.sh scripts/setup.sh scripts/
RUN scripts/setup.sh

COPY . .
RUN scripts/build.sh

CMD ["scripts/demo.sh"]
