// KyotoCabinet HashDB: a hash table in one memory-mapped file.
//
// Tuned as its manual asks: twice as many buckets as records, and a memory map that holds the whole file, so that no
// operation makes a system call. Records keep the default alignment of 8 bytes and free-block pool.
//
// Not crash-safe: records carry no checksum and updates are done in place. A killed process leaves the file marked as
// open; the next open rebuilds it by a scan that cannot tell a torn record from a whole one. (OAUTOTRAN and OAUTOSYNC
// would change that at many times the cost, with a sync per operation.)
#include <kchashdb.h>

#include "common.h"

namespace {

// A record takes about 190 bytes with its buckets; a map larger than the file costs address space only.
constexpr int64_t MAP_BYTES_PER_RECORD = 400;
constexpr int64_t MAP_BYTES_MIN = 64 << 20;

class KyotoCabinet {
 public:
  static const char* name(const bench::Setup&) { return "kyotocabinet"; }
  static const char* mode(const bench::Setup&) { return "HashDB, mapped whole, 2 buckets a record, in place"; }
  static const char* crash_safe(const bench::Setup&) { return "none"; }
  static std::string version() { return kyotocabinet::VERSION; }

  explicit KyotoCabinet(const bench::Setup& setup) {
    const auto records = static_cast<int64_t>(setup.records);
    check(db_.tune_buckets(records * 2));
    check(db_.tune_map(records * MAP_BYTES_PER_RECORD + MAP_BYTES_MIN));
    check(db_.open(setup.dir + "/store.kch", kyotocabinet::HashDB::OWRITER | kyotocabinet::HashDB::OCREATE));
  }

  void put(const bench::Key& key, const bench::Value& value) {
    check(db_.set(text(key), key.size(), text(value), value.size()));
  }

  bool get(const bench::Key& key, bench::Value& into) {
    int32_t size = db_.get(text(key), key.size(), reinterpret_cast<char*>(into.data()), into.size());
    if (size < 0) {
      if (db_.error() == kyotocabinet::BasicDB::Error::NOREC) return false;
      check(false);
    }
    return size == static_cast<int32_t>(into.size());
  }

  void remove(const bench::Key& key) { check(db_.remove(text(key), key.size())); }
  void settle() { check(db_.synchronize(true)); }
  std::optional<uint64_t> own_memory_bytes() { return std::nullopt; }
  void close() { check(db_.close()); }

 private:
  template <class Bytes>
  static const char* text(const Bytes& bytes) {
    return reinterpret_cast<const char*>(bytes.data());
  }
  void check(bool done) {
    if (!done) bench::fail(std::string("kyotocabinet: ") + db_.error().name() + ": " + db_.error().message());
  }

  kyotocabinet::HashDB db_;
};

}  // namespace

int main(int argc, char** argv) { return bench::run<KyotoCabinet>(argc, argv); }
