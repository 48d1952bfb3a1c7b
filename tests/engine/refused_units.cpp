// Does not compile: refused_units_test.sh reads why.
#include "zero/engine.h"
#include "zero/unit.h"

namespace {

struct Hidden {  // does not show its tensors
  at::Tensor logits;
};
struct ReturnsHiddenImpl : torch::nn::Module {
  Hidden forward(const at::Tensor& x) { return {x}; }
};
struct Secret {  // of a root
  at::Tensor loss;
};
struct RootReturnsHiddenImpl : torch::nn::Module {
  Secret forward(const at::Tensor& x) { return {x}; }
};
struct TakesHiddenImpl : torch::nn::Module {
  at::Tensor forward(const std::vector<Hidden>& all) { return all.front().logits; }
};
struct AssignsImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor& x) { return x = x * 2; }
};

}  // namespace

int main() {
  at::Tensor x = torch::ones({2});
  auto returns = zero::Unit<ReturnsHiddenImpl>::make();
  returns(x);
  auto takes = zero::Unit<TakesHiddenImpl>::make();
  takes(std::vector<Hidden>{{x}});
  auto assigns = zero::Unit<AssignsImpl>::make();
  assigns(x);
  zero::Engine engine(nullptr, {});
  auto root = std::make_shared<RootReturnsHiddenImpl>();
  engine.forward(root, x);
}
