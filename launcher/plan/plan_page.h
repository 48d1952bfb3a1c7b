#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "launcher/plan/advice.h"

namespace zero::launcher {

// What `zero_launch plan` answers.
struct PlanAnswer {
  Wish wish;
  std::string family;  // of the model
  RunPlan plan;
  std::optional<Fit> nearest;      // where the plan does not fit
  std::optional<RunPlan> largest;  // model of that shape

  bool engine_fits() const {
    return plan.engine_host_bytes() * plan.ranks_on_node <= wish.room &&
           plan.engine_gpu_bytes() <= wish.gpu_room;
  }
  bool all_fits() const { return fits(plan, wish); }
};

std::string to_page(const PlanAnswer& answer);
nlohmann::json to_json(const PlanAnswer& answer);

}  // namespace zero::launcher
