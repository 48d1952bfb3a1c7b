#include "launcher/data/data_identity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/processes.h"
#include "engine/activity.h"
#include "engine/comm/ranks.h"
#include "engine/errors.h"
#include "launcher/data/token_source.h"

namespace zero::launcher {

DataIdentity agree_on_data(const data::TokenSource& source, bool reads_all,
                           Ranks& ranks) {
  const Activity::Stretch reading("reading the data");
  const std::string hash =
      reads_all ? fmt::format("{:016x}", source.content_hash(Activity::sign_here))
                : std::string();
  const nlohmann::json mine = {hash, source.num_tokens()};
  const auto first = nlohmann::json::parse(ranks.broadcast(mine.dump()));
  const DataIdentity identity = {first[0], first[1]};
  if (source.num_tokens() == identity.num_tokens && (!reads_all || hash == identity.hash))
    return identity;
  throw Error(
      ExitCode::kData,
      fmt::format("the data on host {} is not rank 0's: {} tokens there, {} here",
                  checkpoint::host_name(), identity.num_tokens, source.num_tokens()),
      source.where(), "the same files on every host");
}

}  // namespace zero::launcher
