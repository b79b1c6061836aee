// LMDB: a copy-on-write B+-tree in one memory-mapped file.
//
// One put per write transaction, as an application that answers each request on its own must do; reads renew one
// read transaction, as its manual advises. The map is large enough for everything.
//
// Variant "default": MDB_NOSYNC | MDB_WRITEMAP, its fastest. A commit is a change of the mapped pages, which outlive a
// killed process; after a power cut the pages may have reached the disk in any order and the tree may be broken.
// Variant "nometasync": MDB_NOMETASYNC, crash-safe against power cuts: one flush of the disk per put, so it belongs
// beside stores that flush too, and is measured only when asked for by name.
#include <lmdb.h>

#include "common.h"

namespace {

// A copy-on-write tree of random keys settles near 300 bytes a record; the map is sparse, its rest costs nothing.
constexpr uint64_t MAP_BYTES_PER_RECORD = 1024;
constexpr uint64_t MAP_BYTES_MIN = 1 << 30;

bool syncs(const bench::Setup& setup) { return setup.variant == "nometasync"; }

class Lmdb {
 public:
  static const char* name(const bench::Setup& setup) { return syncs(setup) ? "lmdb-nometasync" : "lmdb"; }
  static const char* mode(const bench::Setup& setup) {
    return syncs(setup) ? "MDB_NOMETASYNC, one put and one disk flush a transaction"
                        : "MDB_NOSYNC|MDB_WRITEMAP, one put a transaction";
  }
  static const char* crash_safe(const bench::Setup& setup) { return syncs(setup) ? "power" : "process"; }
  static std::string version() { return bench::dotted(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH); }

  explicit Lmdb(const bench::Setup& setup) {
    check(mdb_env_create(&env_));
    check(mdb_env_set_mapsize(env_, setup.records * MAP_BYTES_PER_RECORD + MAP_BYTES_MIN));
    check(mdb_env_open(env_, setup.dir.c_str(), syncs(setup) ? MDB_NOMETASYNC : MDB_NOSYNC | MDB_WRITEMAP, 0644));
    MDB_txn* transaction = nullptr;
    check(mdb_txn_begin(env_, nullptr, 0, &transaction));
    check(mdb_dbi_open(transaction, nullptr, 0, &dbi_));
    check(mdb_txn_commit(transaction));
    check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_));
    mdb_txn_reset(reader_);
  }

  void put(const bench::Key& key, const bench::Value& value) {
    MDB_val k = view(key), v = view(value);
    MDB_txn* transaction = nullptr;
    check(mdb_txn_begin(env_, nullptr, 0, &transaction));
    check(mdb_put(transaction, dbi_, &k, &v, 0));
    check(mdb_txn_commit(transaction));
  }

  bool get(const bench::Key& key, bench::Value& into) {
    MDB_val k = view(key), v{};
    check(mdb_txn_renew(reader_));
    int status = mdb_get(reader_, dbi_, &k, &v);
    if (status != MDB_NOTFOUND) {
      check(status);
      if (v.mv_size == into.size()) std::memcpy(into.data(), v.mv_data, into.size());
    }
    mdb_txn_reset(reader_);
    return status == 0;
  }

  void remove(const bench::Key& key) {
    MDB_val k = view(key);
    MDB_txn* transaction = nullptr;
    check(mdb_txn_begin(env_, nullptr, 0, &transaction));
    check(mdb_del(transaction, dbi_, &k, nullptr));
    check(mdb_txn_commit(transaction));
  }

  void settle() { check(mdb_env_sync(env_, 1)); }
  std::optional<uint64_t> own_memory_bytes() { return std::nullopt; }
  void close() {
    mdb_txn_abort(reader_);
    mdb_env_close(env_);
  }

 private:
  template <class Bytes>
  static MDB_val view(const Bytes& bytes) {
    return MDB_val{bytes.size(), const_cast<unsigned char*>(bytes.data())};
  }
  static void check(int status) {
    if (status != 0) bench::fail(std::string("lmdb: ") + mdb_strerror(status));
  }

  MDB_env* env_ = nullptr;
  MDB_txn* reader_ = nullptr;
  MDB_dbi dbi_ = 0;
};

}  // namespace

int main(int argc, char** argv) { return bench::run<Lmdb>(argc, argv); }
