#include "engine/watch/trace.h"

#include <pthread.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace zero {

std::atomic<bool> Trace::is_on_{false};
std::atomic<const Trace::Listener*> Trace::listener_{nullptr};

namespace {

// What one thread did.
struct Book {
  std::mutex mutex;
  bool is_of_lane = false;           // constant; of no thread
  std::string thread;                // guarded by mutex
  std::vector<Trace::Event> events;  // guarded by mutex
};

struct Books {
  std::mutex mutex;
  std::vector<std::shared_ptr<Book>> all;  // guarded by mutex; threads may be gone
  std::atomic<int64_t> begin_ns{0};        // of the recording
};

Books& books() {
  static Books& instance = *new Books;  // never destroyed: threads may outlive main()
  return instance;
}

Book& book_of_this_thread() {
  thread_local const std::shared_ptr<Book> book = [] {
    const std::lock_guard guard(books().mutex);
    return books().all.emplace_back(std::make_shared<Book>());
  }();
  return *book;
}

// Kept until it has been read: as that of a thread that is gone.
std::shared_ptr<Book> book_of_lane(const std::string& lane) {
  const std::lock_guard guard(books().mutex);
  for (const auto& book : books().all) {
    const std::lock_guard own(book->mutex);
    if (book->is_of_lane && book->thread == lane) return book;
  }
  const auto& book = books().all.emplace_back(std::make_shared<Book>());
  book->thread = lane;
  book->is_of_lane = true;
  return book;
}

// Now: a stream's thread may get its name after it has begun to run.
std::string name_of_this_thread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

// The events so far; books of threads that are gone are closed.
std::vector<Trace::Lane> empty_books() {
  std::vector<Trace::Lane> lanes;
  const std::lock_guard guard(books().mutex);
  for (const auto& book : books().all) {
    const std::lock_guard own(book->mutex);
    if (!book->events.empty())
      lanes.push_back({book->thread, std::exchange(book->events, {})});
  }
  std::erase_if(books().all, [](const auto& book) { return book.use_count() == 1; });
  return lanes;
}

}  // namespace

void Trace::start() {
  finish();
  Book& book = book_of_this_thread();
  {
    const std::lock_guard guard(book.mutex);
    book.thread = "training";
  }
  books().begin_ns = now_ns();
  is_on_ = true;
}

int64_t Trace::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Trace::set_listener(const Listener* listener) { listener_ = listener; }

void Trace::add(const std::string& lane, Event event) {
  const std::shared_ptr<Book> book = book_of_lane(lane);
  const std::lock_guard guard(book->mutex);
  if (is_on() && event.begin_ns >= books().begin_ns)
    book->events.push_back(std::move(event));
}

std::vector<Trace::Lane> Trace::finish() {
  is_on_ = false;
  return empty_books();
}

void Trace::Span::begin(std::string_view what, std::string_view whom) {
  event_.name = span_name(what, whom);
  event_.begin_ns = now_ns();
  told_ = listener_;
  if (told_) told_->begin(event_.name.c_str());
}

// One that began in an earlier recording is none of this one's.
void Trace::Span::end() {
  event_.end_ns = now_ns();
  if (told_) told_->end();
  if (!is_on()) return;
  Book& book = book_of_this_thread();
  const std::lock_guard guard(book.mutex);
  if (!is_on() || event_.begin_ns < books().begin_ns) return;
  if (book.thread.empty()) book.thread = name_of_this_thread();
  book.events.push_back(std::move(event_));
}

std::string span_name(std::string_view what, std::string_view whom) {
  std::string name(what);
  if (!whom.empty()) name.append(" ").append(whom);
  return name;
}

}  // namespace zero
