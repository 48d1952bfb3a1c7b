// Models of images, from pictures to classes.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::images_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kSize = 16, kImages = 40, kClasses = 4;

// A PNG file of 8 x 8 gray pixels.
const std::string kPicture(
    "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00"
    "\x00\x08\x00\x00\x00\x08\x08\x00\x00\x00\x00\xe1\x64\xe1\x57\x00\x00\x00"
    "\x23\x49\x44\x41\x54\x78\xda\x63\x60\x80\x01\x11\x28\x60\xd0\x80\x02\x06"
    "\x1b\x28\x60\x08\x80\x02\x86\x14\x28\x60\xa8\x80\x02\x86\x1e\x28\x00\x00"
    "\x8a\x17\x11\x81\x0e\x24\x03\xf5\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42"
    "\x60\x82",
    92);

// A file of NumPy. descr: "|u1", "<i8".
std::string npy(const std::string& descr, const std::string& shape,
                const std::string& bytes) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((11 + header.size()) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' +
         header + bytes;
}

// A class is a corner that is bright, which no mirror shows.
class Images : public Scenario {
 protected:
  void SetUp() override {
    fs::create_directories(path("pictures"));
    std::string pixels, labels;
    for (int64_t i = 0; i < kImages; ++i) {
      const int64_t label = i * 7 % kClasses;
      for (int64_t y = 0; y < kSize; ++y) {
        for (int64_t x = 0; x < kSize; ++x) {
          const bool is_bright =
              (y < kSize / 2) == (label < 2) && (x < kSize / 2) == (label % 2 == 0);
          for (int c = 0; c < 3; ++c)
            pixels +=
                static_cast<char>((is_bright ? 200 : 30) + (i * 13 + x * y + c) % 40);
        }
      }
      labels += std::string(reinterpret_cast<const char*>(&label), sizeof label);
    }
    write("pictures/images.npy", npy("|u1", "(40, 16, 16, 3)", pixels));
    write("pictures/labels.npy", npy("<i8", "(40,)", labels));
  }

  Words learn(const std::string& out, const Words& more) const {
    Words words =
        verb("train", {"--model=regnet", "--data", path("pictures"), "--out", path(out),
                       "--global-batch=8", "--micro-batch=4", "--threads=1",
                       "--adam-threads=1", "--lr=0.01", "--schedule=constant"});
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::count(more, "--init-from") == 0)
      words.emplace_back("--preset=regnety_tiny");
    return words;
  }

  Outcome done(int ranks, const Words& words) {
    const Outcome outcome = run(ranks, words);
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
    return outcome;
  }

  Words predict(const std::string& from, const Words& more = {}) const {
    Words words = verb("predict", {path(from), "--data", path("pictures"), "--threads=1",
                                   "--micro-batch=3"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

double number_behind(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  return at == text.npos ? -1 : std::atof(&text[at + word.size()]);
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1)
    lines.push_back(json::parse(text.substr(begin, end - begin)));
  return lines;
}

std::string content_of(const std::string& file) {
  std::string bytes(fs::file_size(file), '\0');
  FILE* const stream = std::fopen(file.c_str(), "rb");
  EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), stream), bytes.size());
  std::fclose(stream);
  return bytes;
}

TEST_F(Images, ARunGoesOnWhereItStopped) {
  done(0, learn("whole", {"--steps=6", "--dump-state", path("whole_state")}));
  done(0, learn("parts", {"--steps=3"}));
  done(0, learn("parts", {"--steps=6", "--dump-state", path("parts_state")}));
  expect_same(read_state(path("whole_state")), read_state(path("parts_state")));
  done(0, learn("plain", {"--steps=6", "--augment=false"}));
  EXPECT_NE(metrics("plain", "step").at(1)["loss"],
            metrics("whole", "step").at(1)["loss"]);
}

TEST_F(Images, WhatIsLearnedIsPredictedOnAnyRanks) {
  const Outcome trained =
      done(2, learn("a", {"--steps=60", "--augment=false", "--eval-data",
                          path("pictures"), "--eval-samples=0"}));
  EXPECT_THAT(trained.out, HasSubstr("| accuracy"));
  const auto lines = lines_of(done(0, predict("a")).out);
  ASSERT_THAT(lines, SizeIs(kImages));
  int64_t num_right = 0;
  for (int64_t i = 0; i < kImages; ++i) {
    EXPECT_EQ(lines[i]["class"], std::to_string(lines[i]["index"].get<int64_t>()));
    num_right += lines[i]["index"] == i * 7 % kClasses;
  }
  EXPECT_GT(num_right, kImages / 2);
  // The same by another road: eval counts what is right, on other rows at a time.
  const std::string told =
      done(2, verb("eval", {path("a"), "--data", path("pictures"), "--eval-samples=0",
                            "--threads=1", "--micro-batch=4"}))
          .out;
  EXPECT_NEAR(number_behind(told, "accuracy "), 100.0 * num_right / kImages, 0.01)
      << told;
  EXPECT_NEAR(last_of(metrics("a", "eval"))["accuracy"].get<double>(),
              1.0 * num_right / kImages, 1e-9);

  done(0, predict("a", {"--out", path("one.npy")}));
  done(2, predict("a", {"--out", path("two.npy")}));
  const std::string logits = content_of(path("one.npy"));
  EXPECT_EQ(logits.size(), 128 + kImages * kClasses * sizeof(float));
  EXPECT_EQ(logits, content_of(path("two.npy")));
  const Outcome again = run(0, predict("a", {"--out", path("one.npy")}));
  EXPECT_EQ(again.rc, 2);
  EXPECT_THAT(again.err, HasSubstr("there already"));
}

// Pictures that a script draws, on two ranks that normalise together. docs/vision.md says
// how many steps it takes to know pictures that were not seen.
TEST_F(Images, ShapesAreLearnedByHeart) {
  done(0, {"python3", ZERO_REFERENCES "/../../scripts/make_shapes.py", path("shapes"),
           "--count", "64"});
  done(0, verb("train",
               {"--model=regnet", "--preset=regnety_tiny", "--data", path("shapes"),
                "--out", path("a"), "--ranks=2", "--threads=1", "--sync-bn",
                "--no-augment", "--steps=60", "--global-batch=64", "--micro-batch=32",
                "--lr=0.02", "--eval-data", path("shapes"), "--eval-every=60"}));
  EXPECT_GT(last_of(metrics("a", "eval"))["accuracy"].get<double>(), 0.95);
}

// Running statistics travel with the weights.
TEST_F(Images, AnExportIsTheModel) {
  done(0, learn("a", {"--steps=4"}));
  done(0, verb("export", {path("a"), "--to", path("model")}));
  done(0, predict("a", {"--out", path("run.npy")}));
  done(0, predict("model", {"--out", path("model.npy")}));
  EXPECT_EQ(content_of(path("run.npy")), content_of(path("model.npy")));
  done(0, learn("b", {"--init-from", path("model"), "--steps=1"}));
}

// A picture's folder is its class.
TEST_F(Images, OtherClassesAreRefused) {
  const auto folders = [&](const std::string& root, const Words& classes) {
    for (const std::string& name : classes) {
      fs::create_directories(path(root + "/" + name));
      write(root + "/" + name + "/1.png", kPicture);
    }
    return path(root);
  };
  done(0, verb("train", {"--data", folders("pets", {"cat", "dog"}), "--out", path("a"),
                         "--model=regnet", "--preset=regnetx_tiny", "--steps=1",
                         "--global-batch=2", "--micro-batch=2", "--threads=1"}));
  const Words asked = {path("a"), "--data", folders("others", {"cat", "horse"})};
  const Outcome evaluated = run(0, verb("eval", asked));
  EXPECT_EQ(evaluated.rc, 6);
  EXPECT_THAT(evaluated.err, HasSubstr("cat, horse here, cat, dog there"));
  const auto lines = lines_of(done(0, verb("predict", asked)).out);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[1]["image"], "horse/1.png");
  EXPECT_THAT(lines[1]["class"], ::testing::AnyOf("cat", "dog"));
}

// Its classes, too, and what a config.json that people write may lack.
TEST_F(Images, AnExportKnowsItsClasses) {
  fs::create_directories(path("pets/cat"));
  fs::create_directories(path("pets/dog"));
  write("pets/cat/1.png", kPicture);
  write("pets/dog/1.png", kPicture);
  const Words first = {"--model=regnet",   "--preset=regnetx_tiny", "--steps=1",
                       "--global-batch=2", "--micro-batch=2",       "--threads=1"};
  Words words = verb("train", {"--data", path("pets"), "--out", path("a")});
  words.insert(words.end(), first.begin(), first.end());
  done(0, words);
  done(0, verb("export", {path("a"), "--to", path("model")}));
  const Words asked = {path("model"), "--data", path("pets/cat")};
  const auto lines = lines_of(done(0, verb("predict", asked)).out);
  EXPECT_THAT(last_of(lines)["class"], ::testing::AnyOf("cat", "dog"));
  json config = json::parse(content_of(path("model/config.json")));
  config.erase("image_size");
  write("model/config.json", config.dump());
  const Outcome refused = run(0, verb("predict", asked));
  EXPECT_EQ(refused.rc, 2);
  EXPECT_THAT(refused.err, HasSubstr("--model-config image_size=N"));
  fs::create_directories(path("pets/b\xfe"));
  write("pets/b\xfe/1.png", kPicture);
  const Outcome unnamed = run(
      0, verb("train", {"--data", path("pets"), "--out", path("b"), "--model=regnet"}));
  EXPECT_EQ(unnamed.rc, 6);
  EXPECT_THAT(unnamed.err, HasSubstr("class b\\xfe"));
}

TEST_F(Images, WhatIsForAnotherTaskIsRefused) {
  const Outcome text = run(0, learn("a", {"--seq-len=8"}));
  EXPECT_EQ(text.rc, 2);
  EXPECT_THAT(text.err, HasSubstr("seq_len is no setting of a model for images"));
  EXPECT_EQ(run(0, train("language", {"--steps=1"})).rc, 0);
  const Outcome predicted = run(0, predict("language"));
  EXPECT_EQ(predicted.rc, 2);
  EXPECT_THAT(predicted.err, HasSubstr("zero_launch generate"));
}

}  // namespace
}  // namespace zero::scenarios::images_test
