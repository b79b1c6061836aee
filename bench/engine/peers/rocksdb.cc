// RocksDB: a log-structured merge tree.
//
// Write-ahead log on, sync off: one write() per put, so a killed process loses nothing that was answered, and a power
// cut loses the unsynced end of a checksummed log, from which recovery takes the longest good prefix.
//
// Tuned for this job by its own OptimizeForPointLookup (whole-key bloom filters, a hash index inside data blocks, a
// bloom filter in the memtable) with a block cache that holds the data up to 4 GiB, larger memtables, and no
// compression, since the values cannot be compressed. Its background threads run on the same core as the caller, as
// everything here does; `--core 0,1` gives them another.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <thread>

#include "common.h"

namespace {

constexpr uint64_t MIB = 1 << 20;
constexpr uint64_t CACHE_BYTES_PER_RECORD = 256;
constexpr uint64_t CACHE_MIB_MIN = 512, CACHE_MIB_MAX = 4096;
constexpr uint64_t MEMTABLE_BYTES = 128 * MIB;

class RocksDb {
 public:
  static const char* name(const bench::Setup&) { return "rocksdb"; }
  static const char* mode(const bench::Setup&) { return "WAL, sync=false, point-lookup options, no compression"; }
  static const char* crash_safe(const bench::Setup&) { return "power"; }
  static std::string version() { return bench::dotted(ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH); }

  explicit RocksDb(const bench::Setup& setup) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.OptimizeForPointLookup(
        std::clamp(setup.records * CACHE_BYTES_PER_RECORD / MIB, CACHE_MIB_MIN, CACHE_MIB_MAX));
    options.compression = rocksdb::kNoCompression;
    options.bottommost_compression = rocksdb::kNoCompression;
    options.write_buffer_size = MEMTABLE_BYTES;
    options.max_write_buffer_number = 4;
    write_.sync = false;
    write_.disableWAL = false;
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options, setup.dir, &db));
    db_.reset(db);
  }

  void put(const bench::Key& key, const bench::Value& value) { check(db_->Put(write_, slice(key), slice(value))); }

  bool get(const bench::Key& key, bench::Value& into) {
    found_.Reset();
    rocksdb::Status status = db_->Get(read_, db_->DefaultColumnFamily(), slice(key), &found_);
    if (status.IsNotFound()) return false;
    check(status);
    if (found_.size() == into.size()) std::memcpy(into.data(), found_.data(), into.size());
    return true;
  }

  void remove(const bench::Key& key) { check(db_->Delete(write_, slice(key))); }

  // Waits for compaction too: otherwise its work would be billed to the next phase. The driver's time-out bounds it.
  void settle() {
    check(db_->SyncWAL());
    check(db_->Flush(rocksdb::FlushOptions()));
    while (property(rocksdb::DB::Properties::kCompactionPending) != 0 ||
           property(rocksdb::DB::Properties::kNumRunningCompactions) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  std::optional<uint64_t> own_memory_bytes() {
    return property(rocksdb::DB::Properties::kCurSizeAllMemTables) +
           property(rocksdb::DB::Properties::kBlockCacheUsage) +
           property(rocksdb::DB::Properties::kEstimateTableReadersMem);
  }

  void close() {
    found_.Reset();
    check(db_->Close());
    db_.reset();
  }

 private:
  template <class Bytes>
  static rocksdb::Slice slice(const Bytes& bytes) {
    return rocksdb::Slice(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  uint64_t property(const std::string& name) {
    uint64_t value = 0;
    if (!db_->GetIntProperty(name, &value)) bench::fail("rocksdb: no property " + name);
    return value;
  }
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) bench::fail("rocksdb: " + status.ToString());
  }

  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_;
  rocksdb::ReadOptions read_;
  rocksdb::PinnableSlice found_;
};

}  // namespace

int main(int argc, char** argv) { return bench::run<RocksDb>(argc, argv); }
