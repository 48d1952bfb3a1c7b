#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/no_copy.h"

namespace zero {

class Channel;
class Collectives;
class Transport;

enum class ReduceOp { kSum, kMax, kMin };

// The ranks of a group, and the small values of the host that they tell each other.
//
// Every call but the first four is collective and waits: all ranks make the same calls in
// the same order. `tag` names what is told: ranks whose next calls differ in operation,
// tag or size get an Error(kDiverged) that names both, never a hang and never foreign
// data. The first failure ends the group: later calls throw it again.
//
// Not thread-safe: each thread that talks owns a duplicate().
class Ranks : NoCopy {
 public:
  explicit Ranks(std::unique_ptr<Transport> transport);
  ~Ranks();

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  int local_size() const;

  // Replace each value by its reduction over ranks, the same bits on all of them: sums
  // are an adjacent-pair tree, and a NaN on any rank is the result on all.
  void all_reduce(std::span<int64_t> values, ReduceOp op, const std::string& tag);
  void all_reduce(std::span<double> values, ReduceOp op, const std::string& tag);
  int64_t largest(int64_t value, const std::string& tag);
  // all (size() * own.size()) = every rank's `own`, in the order of the ranks.
  void all_gather(std::span<const double> own, std::span<double> all,
                  const std::string& tag);

  void broadcast(void* data, int64_t bytes, int root, const std::string& tag);
  // What `root` says, on every rank; the others' texts do not matter.
  std::string broadcast(const std::string& text, int root = 0);
  // Every rank's text, in the order of the ranks.
  std::vector<std::string> gather(const std::string& text);
  void barrier(const std::string& tag);

  // The ranks that pass the same colour, ordered by their rank here.
  std::unique_ptr<Ranks> split(int color);
  // The same ranks with an order of calls of their own.
  std::unique_ptr<Ranks> duplicate();
  // Bulk collectives of the same ranks over memory of the host, with an order of their
  // own.
  std::unique_ptr<Collectives> make_collectives();

  // From now on write one line per call to a file, when the call is made: "seq op tag
  // bytes", seq counted per group, bytes of the shard or of the data. Groups and
  // collectives made later write to the same file. Local. Throws Error(kEnvironment) if
  // the file cannot be written.
  void trace_to(const std::string& path);

  Channel& channel() { return *channel_; }  // for what is built on it

 private:
  explicit Ranks(std::unique_ptr<Channel> channel);

  std::unique_ptr<Channel> channel_;
};

// The ranks this process belongs to, for a program that does not care how it was started:
// those of MPI if the caller initialised it or mpirun or srun announced ranks (then MPI
// is initialised here, and finalised at exit), else this process alone, without MPI.
// Throws Error(kEnvironment) if MPI knows another number of ranks than announced.
// Collective.
std::unique_ptr<Ranks> make_ranks();

// A group of one, without MPI.
std::unique_ptr<Ranks> make_one_rank();

}  // namespace zero
