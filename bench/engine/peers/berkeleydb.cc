// BerkeleyDB, hash access method, without environment, transactions or log: its fastest, and unsafe.
//
// The cache holds the whole table, and the table is created at its final size with the fill factor that its manual
// computes from page and record size, so that nothing is split while it fills.
//
// Not crash-safe: changed pages live in the process's cache until it is flushed, and are written in place.
#include <db_cxx.h>

#include "common.h"

namespace {

constexpr uint32_t PAGE_BYTES = 4096;
// (page size - 32) / (key + value + 8), from the manual's DB->set_h_ffactor.
constexpr uint32_t FILL_FACTOR = (PAGE_BYTES - 32) / (bench::KEY_BYTES + bench::VALUE_BYTES + 8);
// Pages hold about 200 bytes a record with their slack; half as much again for the cache's own headers.
constexpr uint64_t CACHE_BYTES_PER_RECORD = 400;
constexpr uint64_t CACHE_BYTES_MIN = 64 << 20;
constexpr uint64_t GIB = 1 << 30;

class BerkeleyDb {
 public:
  static const char* name(const bench::Setup&) { return "berkeleydb"; }
  static const char* mode(const bench::Setup&) { return "hash, cache holds all, no log, no transactions"; }
  static const char* crash_safe(const bench::Setup&) { return "none"; }
  static std::string version() {
    int major = 0, minor = 0, patch = 0;
    DbEnv::version(&major, &minor, &patch);
    return bench::dotted(major, minor, patch);
  }

  explicit BerkeleyDb(const bench::Setup& setup) : db_(nullptr, 0) {
    const uint64_t cache = CACHE_BYTES_MIN + setup.records * CACHE_BYTES_PER_RECORD;
    check(db_.set_cachesize(static_cast<uint32_t>(cache / GIB), static_cast<uint32_t>(cache % GIB), 1));
    check(db_.set_pagesize(PAGE_BYTES));
    check(db_.set_h_ffactor(FILL_FACTOR));
    check(db_.set_h_nelem(static_cast<uint32_t>(setup.records)));
    check(db_.open(nullptr, (setup.dir + "/store.db").c_str(), nullptr, DB_HASH, DB_CREATE, 0644));
  }

  void put(const bench::Key& key, const bench::Value& value) {
    Dbt k = view(key), v = view(value);
    check(db_.put(nullptr, &k, &v, 0));
  }

  bool get(const bench::Key& key, bench::Value& into) {
    Dbt k = view(key), v = view(into);
    v.set_ulen(into.size());
    v.set_flags(DB_DBT_USERMEM);
    int status = db_.get(nullptr, &k, &v, 0);
    if (status == DB_NOTFOUND) return false;
    check(status);
    return true;
  }

  void remove(const bench::Key& key) {
    Dbt k = view(key);
    check(db_.del(nullptr, &k, 0));
  }

  void settle() { check(db_.sync(0)); }
  std::optional<uint64_t> own_memory_bytes() { return std::nullopt; }
  void close() { check(db_.close(DB_NOSYNC)); }

 private:
  template <class Bytes>
  static Dbt view(const Bytes& bytes) {
    return Dbt(const_cast<unsigned char*>(bytes.data()), bytes.size());
  }
  static void check(int status) {
    if (status != 0) bench::fail(std::string("berkeleydb: ") + DbEnv::strerror(status));
  }

  Db db_;
};

}  // namespace

int main(int argc, char** argv) { return bench::run<BerkeleyDb>(argc, argv); }
