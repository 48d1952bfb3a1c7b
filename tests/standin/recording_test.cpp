// What calls of CUDA, and the workers beside it, leave in a recording.
#include "tests/standin/recording.h"

#include <gmock/gmock.h>

#include <array>

#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/kernels.h"
#include "tests/standin/recorded_device.h"
#include "tests/standin/standin.h"

namespace standin::recording_test {
namespace {

using Kind = Call::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using zero::Event;

class RecordingTest : public ::testing::Test {
 protected:
  RecordingTest() {
    reset();
    start_recording();
    device = recorded(zero::make_cuda_device(0, {}));
    stream = device->make_stream("side");
    worker = device->make_worker("worker");
    memory = static_cast<float*>(device->allocate("buffer", 64));
  }
  ~RecordingTest() override { device->free(memory); }

  // Of what was queued since the begin.
  std::vector<Call> finish() {
    worker->synchronize();
    stream->synchronize();
    recording = finish_recording();
    return recording.calls;
  }

  std::unique_ptr<zero::Device> device;
  std::unique_ptr<zero::Stream> stream;
  std::unique_ptr<zero::HostStream> worker;
  float* memory = nullptr;
  Recording recording;
};

TEST_F(RecordingTest, CopiesAndFillsTellWhatTheyReadAndWrite) {
  std::array<float, 4> host{};
  stream->copy(memory, host.data(), 16);
  device->compute_stream().set_bytes(memory + 4, 0, 8);
  const std::vector<Call> calls = finish();
  EXPECT_EQ(calls[0].lane, "side");
  EXPECT_THAT(calls[0].accesses,
              ElementsAre(Access{host.data(), 16, false}, Access{memory, 16, true}));
  EXPECT_EQ(calls[1].lane, "compute");
  EXPECT_THAT(calls[1].accesses, ElementsAre(Access{memory + 4, 8, true}));
  EXPECT_THAT(recording.memory, ElementsAre(Access{memory, 64, false, "buffer", memory}));
}

TEST_F(RecordingTest, AKernelsArraysAreKnown) {
  zero::queue_add(memory, zero::DType::kFp32, false, memory + 4, memory + 8,
                  zero::DType::kFp32, 4, zero::as_cuda_stream(*stream).handle());
  const std::vector<Call> calls = finish();
  EXPECT_EQ(calls[0].lane, "side");
  EXPECT_THAT(calls[0].accesses,
              ElementsAre(Access{memory, 16, true}, Access{memory + 4, 16, false},
                          Access{memory + 8, 16, false}));
}

TEST_F(RecordingTest, AWaitMeansTheLatestRecord) {
  Event event;
  stream->record(event);                 // 0
  stream->record(event);                 // 1
  device->compute_stream().wait(event);  // 2
  stream->record(event);                 // 3
  const std::vector<Call> calls = finish();
  EXPECT_EQ(calls[1].kind, Kind::kRecord);
  EXPECT_EQ(calls[2].kind, Kind::kWait);
  EXPECT_EQ(calls[2].lane, "compute");
  EXPECT_THAT(calls[2].after, ElementsAre(1));
}

TEST_F(RecordingTest, WorkersAndStreamsWaitForEachOther) {
  Event copied, added;
  stream->record(copied);                                      // 0
  worker->wait(copied);                                        // 1
  worker->enqueue([this] { note_access(memory, 4, false); });  // 2
  worker->record(added);                                       // 3
  stream->wait(added);                                         // 4
  const std::vector<Call> calls = finish();
  EXPECT_THAT(calls[1].after, ElementsAre(0));
  EXPECT_EQ(calls[2].lane, "worker");
  EXPECT_THAT(calls[2].accesses, ElementsAre(Access{memory, 4, false}));
  EXPECT_EQ(calls[2].thread, "worker, recorde");  // as long as it can be
  EXPECT_EQ(calls[3].kind, Kind::kRecord);
  EXPECT_EQ(calls[4].lane, "side");
  EXPECT_THAT(calls[4].after, ElementsAre(3));
}

// Queued there, it is a place in that lane.
TEST_F(RecordingTest, TheTrainingThreadWaits) {
  Event added;
  worker->record(added);  // 0
  added.synchronize();    // 1
  stream->synchronize();  // 2, 3
  const std::vector<Call> calls = finish();
  EXPECT_EQ(calls[1].lane, "training");
  EXPECT_THAT(calls[1].after, ElementsAre(0));
  EXPECT_EQ(calls[2].kind, Kind::kRecord);
  EXPECT_EQ(calls[2].lane, "side");
  EXPECT_EQ(calls[3].lane, "training");
  EXPECT_THAT(calls[3].after, ElementsAre(2));
}

// Once, and by nobody else's work.
TEST_F(RecordingTest, TheNextWorkOfALaneMayWriteWhatWasLetGo) {
  note_let_go("compute", {memory + 8, 4});
  stream->set_bytes(memory, 0, 4);                   // 0
  device->compute_stream().set_bytes(memory, 0, 4);  // 1
  device->compute_stream().set_bytes(memory, 0, 4);  // 2
  const std::vector<Call> calls = finish();
  EXPECT_THAT(calls[0].accesses, ElementsAre(Access{memory, 4, true}));
  EXPECT_THAT(calls[1].accesses,
              ElementsAre(Access{memory, 4, true}, Access{memory + 8, 4, true}));
  EXPECT_THAT(calls[2].accesses, ElementsAre(Access{memory, 4, true}));
}

TEST_F(RecordingTest, NothingIsRecordedOutside) {
  finish();
  stream->copy(memory, memory + 8, 4);
  start_recording();
  EXPECT_THAT(finish_recording().calls, IsEmpty());
}

}  // namespace
}  // namespace standin::recording_test
