#pragma once
#include <cstdint>

namespace zero {

// How ranks share a model. Groups of neighbouring ranks hold its weights together and
// gather them from each other; of masters, the optimizer's state and finished gradients
// every rank of all groups has a slice of its own. Rank k * group + s is member s of
// group k.
//
// Slices are numbered as they lie in a unit's flat tensor. Those of one member in all
// groups are neighbours: what the groups' updates make is together the member's part of
// the weights.
struct Mesh {
  // Without a group: one of all ranks.
  Mesh(int ranks = 1, int ranks_of_group = 0)  // NOLINT: a number of ranks is a mesh
      : size(ranks), group(ranks_of_group > 0 ? ranks_of_group : ranks) {}

  int num_groups() const { return size / group; }
  int group_of(int rank) const { return rank / group; }
  int member_of(int rank) const { return rank % group; }
  int slice_of(int rank) const { return member_of(rank) * num_groups() + group_of(rank); }
  // Which of a step's micro-batches a rank's backward number `pass` of `num_passes` is:
  // so sums over a group, over its passes and over groups are one tree of pairs.
  int64_t micro_batch(int rank, int64_t pass, int64_t num_passes) const {
    return (group_of(rank) * num_passes + pass) * group + member_of(rank);
  }

  bool operator==(const Mesh&) const = default;

  int size;   // ranks
  int group;  // of them in a group; divides size
};

// Bytes between a rank and the others of its group, and between it and the same member of
// other groups.
struct MeshBytes {
  int64_t in_group = 0, between_groups = 0;
  int64_t total() const { return in_group + between_groups; }
};

inline MeshBytes operator+(const MeshBytes& a, const MeshBytes& b) {
  return {a.in_group + b.in_group, a.between_groups + b.between_groups};
}

// Ranks of other hosts: of a rank's group, and of the same member of other groups.
struct FarRanks {
  int in_group = 0, between_groups = 0;
};

// Where each of `ranks_of_host` neighbours lies on one host; 0: all do.
inline FarRanks far_ranks(const Mesh& mesh, int ranks_of_host) {
  if (ranks_of_host == 0 || ranks_of_host >= mesh.size) return {};
  const int groups_of_host = ranks_of_host > mesh.group ? ranks_of_host / mesh.group : 1;
  return {mesh.group > ranks_of_host ? mesh.group - ranks_of_host : 0,
          mesh.num_groups() > groups_of_host ? mesh.num_groups() - groups_of_host : 0};
}

// Of bytes that all others of a group, or of a member, have the same part in: those
// between hosts.
inline int64_t bytes_across(const MeshBytes& bytes, const Mesh& mesh,
                            const FarRanks& far) {
  const auto part = [](int64_t all, int num_far, int num_others) {
    return num_others > 0 ? all / num_others * num_far : 0;
  };
  return part(bytes.in_group, far.in_group, mesh.group - 1) +
         part(bytes.between_groups, far.between_groups, mesh.num_groups() - 1);
}

}  // namespace zero
