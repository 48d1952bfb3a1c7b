// Batch norms that are synchronised: the numbers of torch's batch norm on the batch of
// all ranks together. And zero's batch norms without ranks: torch's, bit for bit.
#include "zero/batch_norm.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "engine/unit/batch_norm_ranks.h"
#include "tests/engine/unit_contract.h"

namespace zero::testing::batch_norm_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace nn = torch::nn;

constexpr int64_t kChannels = 3;

template <class Norm>
struct NormedImpl : nn::Module {
  NormedImpl() {
    norm = register_module("norm", Norm(kChannels));
    const torch::NoGradGuard no_grad;
    norm->weight.copy_(values({kChannels}, 0.5, 2));
    norm->bias.copy_(values({kChannels}));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(x * 2) + x; }
  Norm norm{nullptr};
};

// A batch norm in a unit, and one outside.
template <class Norm>
struct NetImpl : nn::Module {
  NetImpl() {
    first = register_module("first", Norm(nn::BatchNormOptions(kChannels).momentum({})));
    unit = register_module("unit", Unit<NormedImpl<Norm>>::make());
  }
  at::Tensor forward(const at::Tensor& x, int64_t calls = 1) {
    at::Tensor y = first(x);
    for (int64_t i = 0; i < calls; ++i) y = unit(y);
    return y;
  }
  Norm first{nullptr};
  Unit<NormedImpl<Norm>> unit;
};
using Net = NetImpl<BatchNorm2d>;
using PlainNet = NetImpl<nn::BatchNorm2d>;

at::Tensor images(int64_t rows, int64_t height, double phase) {
  const std::vector<int64_t> shape{rows, kChannels, height, 2};
  const at::Tensor numbers = torch::arange(rows * kChannels * height * 2, at::kFloat);
  const std::vector<int64_t> of_channels{kChannels, 1, 1};
  return torch::sin(numbers * 1.7 + phase).view(shape) * values(of_channels, 0.3, 3) +
         values(of_channels, -2, 5);
}

// All values of a channel below each other: what a batch norm sees.
at::Tensor column_of(const at::Tensor& x) {
  return x.transpose(0, 1).reshape({1, kChannels, -1, 1});
}
at::Tensor whole_of(const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> columns;
  for (const at::Tensor& part : parts) columns.push_back(column_of(part));
  return at::cat(columns, 2);
}
// The part of a rank in a tensor that is like the whole.
at::Tensor part_of(const at::Tensor& whole, const std::vector<at::Tensor>& parts,
                   int rank) {
  int64_t begin = 0;
  for (int r = 0; r < rank; ++r) begin += parts[r].numel() / kChannels;
  return whole.narrow(2, begin, parts[rank].numel() / kChannels);
}

at::Tensor loss_of(const at::Tensor& y) { return y.to(at::kFloat).pow(3).sum(); }

void expect_close(const at::Tensor& value, const at::Tensor& expected, double rtol = 1e-5,
                  double atol = 1e-5) {
  EXPECT_TRUE(torch::allclose(value, expected, rtol, atol)) << value << "\nexpected\n"
                                                            << expected;
}

void expect_same_buffers(const nn::Module& module, const nn::Module& plain) {
  for (const auto& item : plain.named_buffers())
    expect_close(module.named_buffers()[item.key()].to(at::kFloat),
                 item.value().to(at::kFloat), 1e-5, 1e-6);
}

class SyncBatchNorm : public UnitContract {
 protected:
  SyncBatchNorm() { options.sync_batch_norm = true; }

  // The first so many of these are the ranks'.
  std::vector<at::Tensor> even() const {
    return first({images(2, 2, 0), images(2, 2, 1), images(2, 2, 2), images(2, 2, 3)});
  }
  std::vector<at::Tensor> uneven() const {
    return first({images(1, 2, 0), images(4, 2, 1), images(0, 2, 2), images(3, 2, 3)});
  }
  std::vector<at::Tensor> of_many_sizes() const {
    return first({images(1, 1, 0), images(2, 3, 1), images(1, 2, 2), images(2, 1, 3)});
  }
  std::vector<at::Tensor> first(std::vector<at::Tensor> parts) const {
    parts.resize(ranks());
    return parts;
  }

  // What ranks with these parts get is what one without an engine gets from the whole.
  void expect_whole_batch(const std::vector<at::Tensor>& parts, int64_t calls = 1) {
    PlainNet plain;
    std::vector<at::Tensor> outputs, grads;
    for (int step = 0; step < 2; ++step) {
      const at::Tensor x = (whole_of(parts) + step).requires_grad_();
      outputs.push_back(plain.forward(x, calls));
      loss_of(outputs.back()).backward();
      grads.push_back(x.grad());
    }
    each_rank([] { return std::make_shared<Net>(); },
              [&](Engine& engine, auto& model) {
                const int rank = engine.rank();
                for (int step = 0; step < 2; ++step) {
                  const at::Tensor x = (parts[rank] + step).requires_grad_();
                  const at::Tensor y = engine.forward(model, x, calls);
                  expect_close(column_of(y), part_of(outputs[step], parts, rank));
                  engine.backward(loss_of(y), 1);
                  expect_close(column_of(x.grad()), part_of(grads[step], parts, rank),
                               1e-4, 1e-4);
                }
                expect_same_buffers(*model, plain);
                for (const auto& item : plain.named_parameters())
                  expect_close(engine.full_gradient(item.key()) * (2 * ranks()),
                               item.value().grad(), 1e-5, 1e-4);
              });
  }
};

INSTANTIATE_TEST_SUITE_P(, SyncBatchNorm,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

TEST_P(SyncBatchNorm, IsTorchsOnTheWholeBatch) { expect_whole_batch(even()); }

TEST_P(SyncBatchNorm, CountsTheValuesOfUnevenBatches) {
  expect_whole_batch(uneven());
  expect_whole_batch(of_many_sizes());
}

TEST_P(SyncBatchNorm, OfAUnitThatIsCalledThreeTimesNormsEachCallAlone) {
  expect_whole_batch(uneven(), /*calls=*/3);
}

TEST_P(SyncBatchNorm, LosesNothingWhereMeansAreLarge) {
  std::vector<at::Tensor> parts = even();
  for (at::Tensor& part : parts) part = part + 4096;
  const at::Tensor whole = whole_of(parts).to(at::kDouble).requires_grad_();
  nn::BatchNorm2d plain(kChannels);
  plain->to(at::kDouble);
  loss_of(plain(whole)).backward();
  each_rank([] { return std::make_shared<BatchNorm2dImpl>(kChannels); },
            [&](Engine& engine, auto& norm) {
              const at::Tensor x = parts[engine.rank()].clone().requires_grad_();
              engine.backward(loss_of(engine.forward(norm, x)), 1);
              expect_close(norm->running_var, plain->running_var.to(at::kFloat), 1e-4, 0);
              const at::Tensor grad = whole.grad().to(at::kFloat);
              expect_close(column_of(x.grad()), part_of(grad, parts, engine.rank()), 1e-2,
                           1e-2);
            });
}

// ---- what is exchanged

class Exchanges : public SyncBatchNorm {
 protected:
  // Calls of rank 0 that the trace has of batch norms, after two forwards in flight.
  std::vector<std::string> calls(std::vector<at::Tensor>& results) {
    const std::string path =
        ::testing::TempDir() + "batch_norm_trace_" + std::to_string(getpid());
    std::remove(path.c_str());
    const std::vector<at::Tensor> parts = uneven();
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      Options mine = options;
      if (rank == 0) mine.trace_comm = path;
      auto model = std::make_shared<Net>();
      Engine engine(model, mine, std::move(comm));
      const at::Tensor x = parts[rank].clone().requires_grad_();
      const at::Tensor one = engine.forward(model, x, 2);
      const at::Tensor two = engine.forward(model, x + 1, 1);
      engine.backward(loss_of(two), 1);
      engine.backward(loss_of(one), 1);
      std::vector<at::Tensor> mine_of{one.detach(), two.detach(), x.grad()};
      for (const auto& item : model->named_parameters())
        mine_of.push_back(engine.full_gradient(item.key()));
      for (const at::Tensor& buffer : model->buffers()) mine_of.push_back(buffer.clone());
      if (rank == 0) results = mine_of;
    });
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const size_t begin = line.find(' ') + 1;
      if (line.find("batch norm") != std::string::npos)
        lines.push_back(line.substr(begin, line.rfind(' ') - begin));
    }
    std::remove(path.c_str());
    return lines;
  }
};

INSTANTIATE_TEST_SUITE_P(, Exchanges,
                         ::testing::Combine(::testing::Values(2),
                                            ::testing::Values(Recompute::kUnit)));

TEST_P(Exchanges, OfEachForwardOneOfEachBackwardOneAndOfRecomputationsNone) {
  std::vector<at::Tensor> recomputed, kept;
  const std::string out = "all_gather batch norm ",
                    back = "all_reduce batch norm backward ";
  EXPECT_THAT(
      calls(recomputed),
      ElementsAre(out + "first", out + "unit.norm", out + "unit.norm", out + "first",
                  out + "unit.norm", back + "unit.norm", back + "first",
                  back + "unit.norm", back + "unit.norm", back + "first"));
  options.recompute = Recompute::kNone;
  EXPECT_EQ(calls(kept).size(), 10U);
  ASSERT_EQ(recomputed.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(torch::equal(recomputed[i], kept[i])) << i << recomputed[i] << kept[i];
}

// ---- other types, passes and modes

TEST_P(SyncBatchNorm, HasStatisticsInFp32WhereUnitsAreBf16) {
  options.dtype = DType::kBf16;
  const std::vector<at::Tensor> parts = uneven();
  PlainNet plain;
  const at::Tensor whole = whole_of(parts).to(at::kBFloat16).requires_grad_();
  const at::Tensor expected = plain.forward(whole);
  loss_of(expected).backward();
  each_rank([] { return std::make_shared<Net>(); },
            [&](Engine& engine, auto& model) {
              const int rank = engine.rank();
              const at::Tensor x = parts[rank].clone().requires_grad_();
              const at::Tensor y = engine.forward(model, x);
              EXPECT_EQ(y.scalar_type(), at::kBFloat16);
              EXPECT_EQ(model->unit->norm->weight.scalar_type(), at::kFloat);
              expect_close(column_of(y), part_of(expected, parts, rank), 0.02, 0.02);
              engine.backward(loss_of(y), 1);
              expect_close(column_of(x.grad()),
                           part_of(whole.grad().to(at::kFloat), parts, rank), 0.05, 0.5);
              // Those of the first see the same bf16 values as the plain one's.
              expect_close(model->first->running_mean, plain.first->running_mean);
              expect_close(model->first->running_var, plain.first->running_var);
              EXPECT_EQ(model->unit->norm->running_var.scalar_type(), at::kFloat);
            });
}

struct RowsImpl : nn::Module {
  RowsImpl() { unit = register_module("unit", Unit<NormedImpl<BatchNorm2d>>::make()); }
  at::Tensor forward(const at::Tensor& x) { return unit(x); }
  Unit<NormedImpl<BatchNorm2d>> unit;
};

TEST_P(SyncBatchNorm, NormsTheSameMicroBatchOfAllRanksTogether) {
  options.accumulate = Accumulate::kUnit;
  options.micro_batch = 1;
  options.micro_batches_change_buffers = true;
  const std::vector<at::Tensor> parts = even();
  NormedImpl<nn::BatchNorm2d> plain;
  std::vector<at::Tensor> grads;
  for (int64_t row = 0; row < 2; ++row) {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& part : parts) rows.push_back(part.narrow(0, row, 1));
    const at::Tensor x = at::cat(rows).requires_grad_();  // (ranks, 3, 2, 2)
    loss_of(plain.forward(x)).backward();
    grads.push_back(x.grad());
  }
  each_rank([] { return std::make_shared<RowsImpl>(); },
            [&](Engine& engine, auto& model) {
              const int rank = engine.rank();
              const at::Tensor x = parts[rank].clone().requires_grad_();
              engine.backward(loss_of(engine.forward(model, x)), 1);
              for (int64_t row = 0; row < 2; ++row)
                expect_close(x.grad()[row], grads[row][rank], 1e-4, 1e-4);
              expect_same_buffers(*model->unit, plain);
              for (const auto& item : plain.named_parameters())
                expect_close(engine.full_gradient("unit." + item.key()) * ranks(),
                             item.value().grad(), 1e-5, 1e-4);
            });
}

TEST_P(SyncBatchNorm, IsTorchsInEvalAndWithoutTheOption) {
  const std::vector<at::Tensor> parts = even();
  for (const bool trains : {false, true}) {
    options.sync_batch_norm = !trains;
    each_rank([] { return std::make_shared<Net>(); },
              [&](Engine& engine, auto& model) {
                PlainNet plain;
                plain.train(trains), model->train(trains);
                const at::Tensor& x = parts[engine.rank()];
                EXPECT_TRUE(torch::equal(engine.forward(model, x), plain.forward(x)));
              });
  }
}

TEST_P(SyncBatchNorm, AveragingBuffersChangesNoBit) {
  options.average_buffers_each_step = true;
  const std::vector<at::Tensor> parts = uneven();
  each_rank([] { return std::make_shared<Net>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(loss_of(engine.forward(model, parts[engine.rank()])), 1);
              std::vector<at::Tensor> before;
              for (const at::Tensor& buffer : model->buffers())
                before.push_back(buffer.clone());
              engine.step();
              for (size_t i = 0; i < before.size(); ++i)
                EXPECT_TRUE(torch::equal(model->buffers()[i], before[i]));
              EXPECT_EQ(model->first->num_batches_tracked.template item<int64_t>(), 1);
            });
}

// No weight, which would be gone with the engine, is in the way of a gradient.
struct WithoutWeightImpl : nn::Module {
  WithoutWeightImpl() {
    register_parameter("unused", torch::ones({1}));
    norm = register_module("norm",
                           BatchNorm2d(nn::BatchNormOptions(kChannels).affine(false)));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  BatchNorm2d norm{nullptr};
};

TEST_P(SyncBatchNorm, BelongsToItsEngineAsLongAsThatLives) {
  const std::vector<at::Tensor> parts = uneven();
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = std::make_shared<WithoutWeightImpl>();
    BatchNorm2d& norm = model->norm;
    nn::BatchNorm2d plain(nn::BatchNormOptions(kChannels).affine(false));
    at::Tensor left;
    {
      Engine engine(model, options, std::move(comm));
      left = engine.forward(model, parts[rank].clone().requires_grad_());
      EXPECT_NE(norm->ranks, nullptr);
      const auto copy = std::dynamic_pointer_cast<BatchNorm2dImpl>(norm->clone());
      EXPECT_EQ(copy->ranks, nullptr);
      EXPECT_TRUE(torch::equal(copy->running_mean, norm->running_mean));
      norm->reset_running_stats();
    }
    EXPECT_THAT(error_of([&] { left.sum().backward(); }), HasSubstr("engine"));
    EXPECT_TRUE(torch::equal(norm->forward(images(2, 2, rank)),
                             plain->forward(images(2, 2, rank))));
  });
}

// ---- refusals

struct MixedImpl : nn::Module {
  MixedImpl() {
    ours = register_module("ours", BatchNorm1d(3));
    theirs = register_module("theirs", nn::BatchNorm1d(3));
    rows = register_module("rows", nn::Sequential(nn::BatchNorm1d(3)));
  }
  at::Tensor forward(const at::Tensor& x) { return rows->forward(theirs(ours(x))); }
  BatchNorm1d ours{nullptr};
  nn::BatchNorm1d theirs{nullptr};
  nn::Sequential rows{nullptr};
};

std::string refusal_of(std::shared_ptr<nn::Module> model) {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.sync_batch_norm = true;
  return error_of([&] { Engine(std::move(model), options, make_one_rank()); });
}

TEST(SyncBatchNormRefusals, AModelThatWouldNotBeSynchronisedIsRefused) {
  EXPECT_THAT(refusal_of(std::make_shared<MixedImpl>()),
              AllOf(HasSubstr("theirs, rows.0"), HasSubstr("zero::BatchNorm2d"),
                    HasSubstr("convert_sync_batchnorm")));
  EXPECT_THAT(refusal_of(std::make_shared<nn::LinearImpl>(3, 3)),
              HasSubstr("without a batch norm"));
  EXPECT_THAT(refusal_of(std::make_shared<BatchNorm1dImpl>(3)), "no error");
}

TEST_P(SyncBatchNorm, OfOneValueIsRefusedOnAllRanks) {
  each_rank([] { return std::make_shared<BatchNorm1dImpl>(kChannels); },
            [&](Engine& engine, auto& norm) {
              const int64_t rows = engine.rank() == 0;
              EXPECT_THAT(error_of([&] {
                            engine.forward(norm, torch::ones({rows, kChannels}));
                          }),
                          HasSubstr("1 value per channel"));
              EXPECT_EQ(norm->num_batches_tracked.template item<int64_t>(), 0);
            });
}

// One channel would be normed as if it were all of them.
TEST_P(SyncBatchNorm, OfOtherChannelsIsRefused) {
  each_rank([] { return std::make_shared<BatchNorm1dImpl>(kChannels); },
            [&](Engine& engine, auto& norm) {
              EXPECT_THAT(error_of([&] {
                            engine.forward(norm, torch::ones({4, 1}));
                          }),
                          HasSubstr("of shape [4, 1]"));
              EXPECT_EQ(norm->num_batches_tracked.template item<int64_t>(), 0);
            });
}

struct SkipsImpl : Net {
  at::Tensor forward(const at::Tensor& x, bool skips) {
    return skips ? unit(x) : Net::forward(x);
  }
};

TEST_P(SyncBatchNorm, RanksThatCallOthersAreToldBoth) {
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<SkipsImpl>();
    Engine engine(model, options, std::move(comm));
    const bool skips = engine.rank() == 1;
    EXPECT_THAT(error_of([&] { engine.forward(model, images(2, 2, 0), skips); },
                         ExitCode::kDiverged),
                AllOf(HasSubstr("batch norm first"), HasSubstr("batch norm unit.norm")));
  });
}

TEST_P(SyncBatchNorm, HasFirstDerivativesOnly) {
  each_rank([] { return std::make_shared<BatchNorm2dImpl>(kChannels); },
            [&](Engine& engine, auto& norm) {
              const at::Tensor x = images(2, 2, engine.rank()).requires_grad_();
              const at::Tensor loss = loss_of(engine.forward(norm, x));
              EXPECT_THAT(error_of([&] {
                            torch::autograd::grad({loss}, {x}, {}, true,
                                                  /*create_graph=*/true);
                          }),
                          HasSubstr("create_graph"));
            });
}

// ---- without ranks

template <class Ours, class Torchs>
void expect_bits_of(Ours ours, Torchs torchs, const at::Tensor& x) {
  for (int step = 0; step < 3; ++step) {
    if (step == 2) ours->eval(), torchs->eval();
    const at::Tensor a = (x + step).requires_grad_(), b = (x + step).requires_grad_();
    const at::Tensor y = ours(a), expected = torchs(b);
    ASSERT_TRUE(torch::equal(y, expected)) << y << expected;
    y.pow(3).sum().backward();
    expected.pow(3).sum().backward();
    EXPECT_TRUE(torch::equal(a.grad(), b.grad()));
  }
  const auto expect_same = [](const auto& mine, const auto& others) {
    ASSERT_EQ(mine.size(), others.size());
    for (const auto& item : others)
      EXPECT_TRUE(torch::equal(mine[item.key()], item.value())) << item.key();
  };
  expect_same(ours->named_parameters(), torchs->named_parameters());
  expect_same(ours->named_buffers(), torchs->named_buffers());
}

TEST(BatchNormAlone, IsTorchsBitForBit) {
  const auto plain = nn::BatchNormOptions(3);
  for (const auto& options :
       {plain, nn::BatchNormOptions(3).momentum(c10::nullopt).eps(0.1),
        nn::BatchNormOptions(3).affine(false),
        nn::BatchNormOptions(3).track_running_stats(false)}) {
    expect_bits_of(BatchNorm1d(options), nn::BatchNorm1d(options), values({4, 3}));
    expect_bits_of(BatchNorm1d(options), nn::BatchNorm1d(options), values({4, 3, 2}));
    expect_bits_of(BatchNorm2d(options), nn::BatchNorm2d(options), values({4, 3, 2, 2}));
    expect_bits_of(BatchNorm3d(options), nn::BatchNorm3d(options),
                   values({2, 3, 2, 2, 2}));
  }
  EXPECT_EQ(c10::str(*BatchNorm2d(3)),
            "zero::BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=true, "
            "track_running_stats=true)");
  EXPECT_THAT(c10::str(*BatchNorm1d(nn::BatchNormOptions(3).momentum(c10::nullopt))),
              HasSubstr("momentum=None"));
}

TEST(BatchNormAlone, RefusesOtherDimensions) {
  EXPECT_THAT(error_of([] {
                BatchNorm1d(3)(values({2, 3, 2, 2}));
              }),
              HasSubstr("[2, 3, 2, 2]"));
  EXPECT_THAT(error_of([] {
                BatchNorm2d(3)(values({2, 3}));
              }),
              AllOf(HasSubstr("zero::BatchNorm2d(3"), HasSubstr("4 dimensions")));
}

TEST(BatchNormAlone, IsClonedWithItsValues) {
  BatchNorm2d norm(3);
  norm(values({2, 3, 2, 2}));
  const nn::Sequential holder(norm);
  const auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(holder->clone());
  for (const auto& item : norm->named_buffers())
    EXPECT_TRUE(torch::equal(copy->named_buffers()["0." + item.key()], item.value()));
  EXPECT_NE(copy->ptr(0)->as<BatchNorm2d>()->running_mean.data_ptr(),
            norm->running_mean.data_ptr());
}

TEST(MergedStatistics, AreThoseOfAllValuesTogether) {
  // 1, 3, 5 and nothing and 11: mean 5, variance 14.
  const std::vector<double> groups{3, 3, 8.0 / 3, 0, 0, 0, 1, 11, 0};
  EXPECT_THAT(merged_statistics(groups, 1), ElementsAre(4, 5, ::testing::DoubleEq(14)));
}

// ---- conversion

// A Sequential holds others only of classes with a forward of one type.
struct InnerImpl : nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return SequentialImpl::forward(x); }
};

TEST(ConvertSyncBatchnorm, ReplacesEntriesOfSequentialsAndKeepsWhatTheyHold) {
  nn::BatchNorm1d shared(3);
  const auto inner = std::make_shared<InnerImpl>(
      nn::BatchNorm1d(nn::BatchNormOptions(3).affine(false)), shared);
  nn::Sequential model;
  model->push_back("start", nn::Linear(3, 3));
  model->push_back("norm", nn::BatchNorm1d(3));
  model->push_back("inner", inner);
  model->push_back("again", shared);
  const auto params = model->named_parameters(), buffers = model->named_buffers();
  const at::Tensor x = values({4, 3});
  model->eval(), inner->ptr(0)->train();
  const at::Tensor expected = model->forward(x);

  EXPECT_THAT(convert_sync_batchnorm(*model), IsEmpty());

  EXPECT_TRUE(torch::equal(model->forward(x), expected));
  EXPECT_EQ(model->named_parameters().keys(), params.keys());
  EXPECT_EQ(model->named_buffers().keys(), buffers.keys());
  for (const auto& item : params)
    EXPECT_TRUE(model->named_parameters()[item.key()].is_same(item.value()));
  for (const auto& item : buffers)
    EXPECT_TRUE(model->named_buffers()[item.key()].is_same(item.value())) << item.key();
  EXPECT_EQ(model->ptr(3), inner->ptr(1)) << "one module still";
  EXPECT_EQ(model->named_modules()["norm"], model->ptr(1));
  EXPECT_FALSE(inner->ptr(1)->is_training());
  EXPECT_TRUE(inner->ptr(0)->is_training());
  EXPECT_FALSE(inner->ptr(0)->as<BatchNorm1d>()->options.affine());
}

struct MyNormImpl : nn::BatchNorm1dImpl {
  using nn::BatchNorm1dImpl::BatchNorm1dImpl;
};

TEST(ConvertSyncBatchnorm, NamesAllThatItCannotReachBeforeItChangesAny) {
  const auto model = std::make_shared<MixedImpl>();
  model->rows->push_back(std::make_shared<MyNormImpl>(3));
  EXPECT_THAT(error_of([&] { convert_sync_batchnorm(*model); }),
              AllOf(HasSubstr("theirs, rows.1"), HasSubstr("zero::BatchNorm2d")));
  EXPECT_NE(model->rows->ptr(0)->as<nn::BatchNorm1d>(), nullptr) << "as it was";

  EXPECT_THAT(convert_sync_batchnorm(*model, Unreached::kList),
              ElementsAre("theirs", "rows.1"));
  EXPECT_NE(model->rows->ptr(0)->as<BatchNorm1d>(), nullptr);
  EXPECT_THAT(convert_sync_batchnorm(*nn::BatchNorm1d(3), Unreached::kList),
              ElementsAre("the model itself"));
}

TEST(ConvertSyncBatchnorm, ComesBeforeTheEngine) {
  const auto model = std::make_shared<MixedImpl>();
  Options options;
  options.device = DeviceChoice::kCpu;
  const Engine engine(model, options, make_one_rank());
  EXPECT_THAT(error_of([&] { convert_sync_batchnorm(*model, Unreached::kList); }),
              HasSubstr("before the engine"));
}

TEST_P(SyncBatchNorm, MayComeFromAConvertedSequential) {
  const auto make = [] {
    return std::make_shared<nn::SequentialImpl>(nn::BatchNorm2d(kChannels));
  };
  const auto plain = make();
  const std::vector<at::Tensor> parts = uneven();
  const at::Tensor expected = plain->forward(whole_of(parts));
  each_rank(
      [&] {
        auto model = make();
        convert_sync_batchnorm(*model);
        return model;
      },
      [&](Engine& engine, auto& model) {
        const at::Tensor y = engine.forward(model, parts[engine.rank()]);
        expect_close(column_of(y), part_of(expected, parts, engine.rank()));
        expect_same_buffers(*model, *plain);
      });
}

}  // namespace
}  // namespace zero::testing::batch_norm_test
