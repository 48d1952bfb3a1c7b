#include <list>

#include "engine/comm/hang_post.h"
#include "engine/comm/mpi/mpi_transport.h"

namespace zero {
namespace {

class MpiHangPost final : public HangPost {
 public:
  MpiHangPost() : comm_(duplicate_of(MPI_COMM_WORLD)) {}

  // Questions to a rank that left first may never arrive: MPI_Finalize drops them, and
  // they must live until then.
  ~MpiHangPost() override {
    if (!sent_.empty()) new std::list<Sent>(std::move(sent_));
  }

  void send(int peer, const HangMessage& message) override {
    forget_delivered();
    Sent& sent = sent_.emplace_back();
    sent.message = message;
    check_mpi(
        MPI_Isend(&sent.message, sizeof message, MPI_BYTE, peer, 0, comm_, &sent.request),
        "MPI_Isend");
  }

  std::optional<std::pair<int, HangMessage>> receive() override {
    int is_there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &is_there, &status), "MPI_Iprobe");
    if (!is_there) return std::nullopt;
    HangMessage message;
    check_mpi(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, 0, comm_,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    return {{status.MPI_SOURCE, message}};
  }

 private:
  struct Sent {
    HangMessage message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void forget_delivered() {
    std::erase_if(sent_, [](Sent& sent) {
      int is_done = 0;
      check_mpi(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      return is_done != 0;
    });
  }

  MPI_Comm comm_;
  std::list<Sent> sent_;  // still under way
};

}  // namespace

std::unique_ptr<HangPost> make_mpi_post() { return std::make_unique<MpiHangPost>(); }

}  // namespace zero
