// Training whose weights come to a GPU and whose gradients leave it by copies, against
// training in the host's own memory: the same bits. The GPU is the stand-in, where
// LibTorch's operators are the host's (torch_cuda.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine/device/host_device.h"
#include "tests/engine/training.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/errors.h"

namespace zero::testing::engine_standin_test {
namespace {

Trained train_on_gpu(Options options, const Work& work, int ranks = 1) {
  of_standin<void()>("standin_reset")();
  options.device = DeviceChoice::kCuda;
  return train(ranks, options, work);
}

class EngineStandinTest : public ::testing::Test {
 protected:
  // In the host's memory nothing is gathered where nothing has to be.
  void expect_same_as_on_the_host() {
    Options streamed = options;
    streamed.stream_always = true;
    const Trained on_gpu = train_on_gpu(options, work),
                  on_host = train(1, streamed, work);
    expect_same(on_gpu, on_host);
    EXPECT_EQ(on_gpu.num_gathers, on_host.num_gathers);
  }

  Work work;
  Options options = small_options(work);
};

TEST_F(EngineStandinTest, TheBitsOfTheHost) { expect_same_as_on_the_host(); }

TEST_F(EngineStandinTest, OnePassAStep) {
  work.micro_batches = 1;
  options.micro_batches_per_rank = 1;
  expect_same_as_on_the_host();
}

TEST_F(EngineStandinTest, InBf16) {
  options.dtype = options.reduce_dtype = options.grad_dtype = DType::kBf16;
  options.micro_batches_per_rank = work.micro_batches;
  expect_same_as_on_the_host();
  work.micro_batches = options.micro_batches_per_rank = 1;  // gradients kept in 2 bytes
  options.master = MasterStorage::kSplit;
  expect_same_as_on_the_host();
}

TEST_F(EngineStandinTest, InFp16) {
  options.dtype = DType::kFp16;
  options.loss_scale.init = 1 << 10;
  options.micro_batches_per_rank = work.micro_batches;
  expect_same_as_on_the_host();
  options.reduce_dtype = DType::kBf16;
  expect_same_as_on_the_host();
}

TEST_F(EngineStandinTest, Deterministic) {
  options.deterministic = true;
  options.micro_batches_per_rank = work.micro_batches;
  expect_same_as_on_the_host();
}

TEST_F(EngineStandinTest, KeptGraphsAndWeights) {
  options.recompute = Recompute::kNone;
  expect_same_as_on_the_host();
  options.reshard_after_forward = false;
  expect_same_as_on_the_host();
}

TEST_F(EngineStandinTest, AnyPrefetch) {
  for (const int prefetch : {0, 1, 3}) {
    options.prefetch = prefetch;
    expect_same_as_on_the_host();
  }
}

// Against layers on the host.
TEST_F(EngineStandinTest, AttentionAndFeedForwardAsUnits) {
  Gpt2Config halves = small_gpt2();
  halves.sublayers = true;
  const Trained on_host = train(1, options, work);
  options.device = DeviceChoice::kCuda;
  for (const bool offloads : {false, true}) {
    of_standin<void()>("standin_reset")();
    options.offload_activations = offloads;
    options.prefetch = offloads ? 3 : 1;
    expect_same(train(1, options, work, {}, halves), on_host);
  }
}

TEST_F(EngineStandinTest, UpdatesInsideTheStep) {
  options.overlap_updates = false;
  expect_same_as_on_the_host();
}

// Of steps half of which are clipped.
TEST_F(EngineStandinTest, DraftsOfUpdatesInAnyStep) {
  work.micro_batches = 2;
  options.micro_batches_per_rank = 2;
  options.speculate_bytes = 1 << 30;
  const std::pair<DType, MasterStorage> kinds[] = {{DType::kFp32, MasterStorage::kFp32},
                                                   {DType::kBf16, MasterStorage::kFp32},
                                                   {DType::kBf16, MasterStorage::kSplit}};
  for (const auto& [dtype, master] : kinds) {
    options.dtype = dtype;
    options.master = master;
    options.clip = 0;
    std::vector<double> norms = train(1, options, work).norms;
    std::ranges::sort(norms);
    options.clip = norms[norms.size() / 2];
    expect_same_as_on_the_host();
    for (const Offload offload : {Offload::kAll, Offload::kOptimizer}) {
      Options there = options;
      there.offload = offload;
      there.chaos_seed = 1;
      Options without = options;
      without.speculate_bytes = 0;
      expect_same(train_on_gpu(there, work), train(1, without, work));
    }
  }
}

TEST_F(EngineStandinTest, ChaosChangesNoBit) {
  work.steps = 3;
  const Trained calm = train_on_gpu(options, work);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    options.chaos_seed = seed;
    expect_same(train_on_gpu(options, work), calm);
  }
}

// Each reduced part is waited for once, by the thread that adds it; nothing else that
// grows with a step's passes waits.
TEST_F(EngineStandinTest, OnlyWhoAddsAGradientWaitsForIt) {
  work.steps = 1;
  std::vector<int64_t> others;
  for (const int micro_batches : {2, 12}) {
    work.micro_batches = options.micro_batches_per_rank = micro_batches;
    const int64_t reductions = train_on_gpu(options, work).num_reductions;
    others.push_back(ask_standin("standin_num_host_waits") - reductions);
  }
  EXPECT_EQ(others[0], others[1]);
}

TEST_F(EngineStandinTest, WhatIsCopiedWhileUnitsRunIsPinned) {
  work.steps = 1;
  std::vector<int> unpinned;
  for (const int micro_batches : {2, 12}) {
    work.micro_batches = options.micro_batches_per_rank = micro_batches;
    train_on_gpu(options, work);
    unpinned.push_back(ask_standin("standin_num_unpinned_copies"));
  }
  EXPECT_EQ(unpinned[0], unpinned[1]);
}

TEST_F(EngineStandinTest, TheEnginesBytesAreThePlans) {
  options.device = DeviceChoice::kCuda;
  train(1, options, work,
        {.before_step_end = {}, .after_step = [](Engine& engine, Gpt2Impl&, int) {
           expect_planned_bytes(engine);
           const auto unsharded = std::make_shared<Gpt2Impl>(small_gpt2());
           int64_t told = 0;
           for (const MemoryEntry& entry : plan(*unsharded, engine.options(), 1))
             told += entry.bytes;
           EXPECT_EQ(engine.allocated_bytes(), told);
         }});
}

// Whatever the call that fails: no hang, one error that says it, and all is given back.
TEST_F(EngineStandinTest, AnErrorOfTheGpuEndsTheRun) {
  constexpr int kIllegalAddress = 700;
  options.device = DeviceChoice::kCuda;
  set_delays({{"update", 20}});  // so that the GPU has to wait for it
  for (const std::string call :
       {"cudaMemcpyAsync", "cuStreamWaitValue32", "cudaLaunchHostFunc", "kernel"}) {
    of_standin<void()>("standin_reset")();
    of_standin<void(bool)>("standin_set_wait_values")(call != "cudaLaunchHostFunc");
    Hooks hooks;
    hooks.before_step_end = [&](Engine&, Gpt2Impl&, int step) {
      if (step == 1)
        of_standin<void(const char*, int)>("standin_fail_when_run")(call.c_str(),
                                                                    kIllegalAddress);
    };
    try {
      train(1, options, work, hooks);
      ADD_FAILURE() << call << " failed, and nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kEnvironment) << error.what();
      EXPECT_NE(std::string(error.what()).find("illegal memory access"), std::string::npos)
          << error.what();
    } catch (const std::exception& error) {  // LibTorch found out first
      EXPECT_NE(std::string(error.what()).find("illegal memory access"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(ask_standin("standin_num_left"), 0) << call;
  }
  set_delays({});
}

// Each with a GPU of its own.
TEST_F(EngineStandinTest, SeveralRanks) {
  for (const int ranks : {2, 3, 4})
    expect_same(train_on_gpu(options, work, ranks), train(ranks, options, work));
}

TEST_F(EngineStandinTest, SeveralRanksInBf16) {
  options.dtype = options.reduce_dtype = options.grad_dtype = DType::kBf16;
  options.micro_batches_per_rank = work.micro_batches / 2;
  expect_same(train_on_gpu(options, work, 2), train(2, options, work));
  work.micro_batches = 2;
  options.micro_batches_per_rank = 1;  // gradients kept in 2 bytes
  options.master = MasterStorage::kSplit;
  expect_same(train_on_gpu(options, work, 2), train(2, options, work));
}

TEST_F(EngineStandinTest, AnyNumberOfRanksGivesTheSameBits) {
  options.deterministic = true;
  options.micro_batches_per_rank = work.micro_batches;
  const Trained alone = train(1, options, work);
  for (const int ranks : {2, 4}) {
    options.micro_batches_per_rank = work.micro_batches / ranks;
    options.chaos_seed = ranks;
    expect_same(train_on_gpu(options, work, ranks), alone);
  }
}

TEST_F(EngineStandinTest, TheBytesOfSeveralRanksAreThePlans) {
  of_standin<void()>("standin_reset")();
  options.device = DeviceChoice::kCuda;
  train(2, options, work,
        {.before_step_end = {}, .after_step = [](Engine& engine, Gpt2Impl&, int) {
           expect_planned_bytes(engine);
         }});
}

// As long as there is an engine, and as it was afterwards.
TEST_F(EngineStandinTest, LibTorchIsToldHowToCompute) {
  at::Context& context = at::globalContext();
  struct Told {
    bool is_deterministic, cublas_tf32, cudnn_tf32;
    bool operator==(const Told&) const = default;
  };
  const auto now = [&] {
    return Told{context.deterministicAlgorithms(), context.allowTF32CuBLAS(),
                context.allowTF32CuDNN()};
  };
  const Told before = now();
  options.device = DeviceChoice::kCuda;
  const auto inside = [&](int ranks) {
    Told told{};
    train(ranks, options, work,
          {.before_step_end = {}, .after_step = [&](Engine& engine, Gpt2Impl&, int) {
             if (engine.control().rank() == 0) told = now();
           }});
    return told;
  };
  EXPECT_EQ(inside(1), (Told{false, false, false}));
  options.tf32 = true;
  EXPECT_EQ(inside(1), (Told{false, true, true}));
  options.tf32 = false;
  options.deterministic = true;
  options.micro_batches_per_rank = work.micro_batches / 2;
  EXPECT_EQ(inside(2), (Told{true, false, false}));
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(now(), before);
}

// The engine's own bytes count, and LibTorch gets the rest.
TEST_F(EngineStandinTest, ASmallerGpu) {
  const Trained whole = train_on_gpu(options, work);
  options.device_memory = 512 << 20;  // the stand-in has twice as much
  int64_t on_gpu = 0;
  double of_torch = 0;
  of_standin<void()>("standin_reset")();
  options.device = DeviceChoice::kCuda;
  const Trained smaller =
      train(1, options, work,
            {.before_step_end = {}, .after_step = [&](Engine& engine, Gpt2Impl&, int) {
               on_gpu = 0;
               of_torch = of_standin<double()>("standin_torch_fraction")();
               for (const MemoryEntry& entry : engine.memory())
                 on_gpu += entry.tier == "device" ? entry.bytes : 0;
             }});
  expect_same(smaller, whole);
  EXPECT_GT(on_gpu, 0);
  EXPECT_DOUBLE_EQ(of_torch,
                   static_cast<double>(options.device_memory - on_gpu) / (1 << 30));
  EXPECT_EQ(of_standin<double()>("standin_torch_fraction")(), 1);  // for whoever comes
  options.device_memory = on_gpu - 1;
  try {
    train_on_gpu(options, work);
    ADD_FAILURE() << "it took more than it may";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("that are allowed (device_memory)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(ask_standin("standin_num_left"), 0);
}

TEST_F(EngineStandinTest, MoreRanksThanGpusAreRefused) {
  options.device = DeviceChoice::kCuda;
  try {
    train(6, options, work);
    ADD_FAILURE() << "two ranks shared a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    const std::string text = error.what();
    EXPECT_NE(text.find("ranks 0 and 4 would share one GPU (GPU-0"), std::string::npos)
        << text;
    EXPECT_NE(text.find("--share-gpu"), std::string::npos) << text;
  }
  options.share_gpu = true;  // for processes; these are threads
  EXPECT_THROW(train(6, options, work), Error);
}

}  // namespace
}  // namespace zero::testing::engine_standin_test
