// The part of the engine benchmark that all peers share: records, phases, timing and the line of
// JSON.
//
// The Rust subjects run the same code from ../src (workload.rs, measure.rs). Records, orders and
// timed steps must be equal on both sides, or the ratios mean nothing. The static_asserts below and
// the test `records_are_those_of_the_c_header` check the same golden records.
//
// A peer is a struct with:
//   static const char* name(const bench::Setup&), * mode(const bench::Setup&), * crash_safe(const bench::Setup&);
//   static std::string version();
//   explicit Peer(const bench::Setup&);              opens an empty store in setup.dir
//   void put(const Key&, const Value&);              inserts or overwrites
//   bool get(const Key&, Value& into);               copies the value out, as all subjects do
//   void remove(const Key&);
//   void settle();                                   everything accepted so far is on the disk when it returns
//   std::optional<uint64_t> own_memory_bytes();
//   void close();
// and a main that calls bench::run<Peer>(argc, argv).
//
// crash_safe is one of
//   none      a killed process can leave the store broken, or without changes that were answered
//   process   everything answered survives a killed process; a power cut can leave the store broken
//   power     also after a power cut the store opens and is consistent, though without the last unsynced changes
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// ---------------------------------------------------------------- records

constexpr size_t KEY_BYTES = 15;
constexpr size_t VALUE_BYTES = 132;
constexpr uint64_t GAMMA = 0x9E3779B97F4A7C15;

// The spare byte lets a key be made and copied in whole words; odd pieces would stall later word
// loads.
struct alignas(8) Key {
  unsigned char bytes[KEY_BYTES + 1];
  constexpr const unsigned char* data() const { return bytes; }
  constexpr size_t size() const { return KEY_BYTES; }
  constexpr unsigned char operator[](size_t at) const { return bytes[at]; }
};
using Value = std::array<unsigned char, VALUE_BYTES>;

// The finalizer of splitmix64: a bijection, so that distinct inputs give distinct keys.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian words");

// Byte by byte only at compile time: at run time that would cost more than a lookup.
template <size_t bytes>
constexpr void put_le(unsigned char* at, uint64_t word) {
  if (!__builtin_is_constant_evaluated()) {
    std::memcpy(at, &word, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i++) at[i] = static_cast<unsigned char>(word >> (8 * i));
}

struct Records {
  uint64_t seed;

  static constexpr uint64_t next(uint64_t& state) {
    state += GAMMA;
    uint64_t word = state * 0xBF58476D1CE4E5B9;
    return word ^ (word >> 29);
  }

  constexpr void fill(Key& key, uint64_t index) const {
    uint64_t first = mix(seed + index * GAMMA);
    put_le<8>(key.bytes, first);
    put_le<8>(key.bytes + 8, mix(first ^ GAMMA));
  }

  constexpr void fill(Value& value, uint64_t index, uint8_t version) const {
    uint64_t state = mix(seed ^ mix(index * GAMMA + version));
    size_t at = 0;
    for (; at + 8 <= VALUE_BYTES; at += 8) put_le<8>(value.data() + at, next(state));
    put_le<VALUE_BYTES % 8>(value.data() + at, next(state));
  }

  // Not constexpr, which would zero the bytes first; the Rust subjects do not pay for that.
  Key key(uint64_t index) const {
    Key key;
    fill(key, index);
    return key;
  }

  Value value(uint64_t index, uint8_t version) const {
    Value value;
    fill(value, index, version);
    return value;
  }
};

// FNV-1a, only to check the golden records at compile time.
template <class Bytes>
constexpr uint64_t digest(const Bytes& bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < bytes.size(); i++) hash = (hash ^ bytes[i]) * 0x100000001B3;
  return hash;
}
constexpr Key golden_key() {
  Key key{};
  Records{7}.fill(key, 12345);
  return key;
}
constexpr Value golden_value() {
  Value value{};
  Records{7}.fill(value, 12345, 3);
  return value;
}
static_assert(digest(golden_key()) == 0xA7FE5605073E22E5, "keys differ from workload.rs");
static_assert(digest(golden_value()) == 0x759A52950C7050E1, "values differ from workload.rs");

// The order in which a phase visits the records: a seeded Fisher-Yates shuffle of all of them.
inline void shuffle(std::vector<uint32_t>& order, uint64_t seed) {
  uint64_t state = mix(seed);
  for (uint64_t left = order.size(); left > 1; left--) {
    state += GAMMA;
    uint64_t pick = static_cast<uint64_t>((static_cast<unsigned __int128>(mix(state)) * left) >> 64);
    std::swap(order[left - 1], order[pick]);
  }
}

// ---------------------------------------------------------------- setup and readings

struct Setup {
  std::string dir;
  uint64_t records = 0;
  uint64_t seed = 0;
  bool mixed = false;
  std::string variant;
};

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

inline std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Memory {
  uint64_t rss = 0, anonymous = 0;
  static Memory now() {
    Memory memory;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("VmRSS:", 0) == 0) memory.rss = std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
      if (line.rfind("RssAnon:", 0) == 0) memory.anonymous = std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
    }
    return memory;
  }
};

// The size of the folder: allocated blocks, as du counts, so that holes in sparse files cost
// nothing.
inline uint64_t disk_bytes(const std::string& dir) {
  uint64_t total = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    struct stat stat {};
    if (lstat(entry.path().c_str(), &stat) == 0) total += static_cast<uint64_t>(stat.st_blocks) * 512;
  }
  return total;
}

// ---------------------------------------------------------------- one phase

using Clock = std::chrono::steady_clock;

inline uint64_t nanoseconds(Clock::duration span) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(span).count());
}

struct Reading {
  std::string name;
  uint64_t ops = 0;
  double seconds = 0, settle_seconds = 0, cpu = 0, settle_cpu = 0;
  uint32_t p50 = 0, p99 = 0, p999 = 0, longest = 0;
  uint64_t disk = 0, rss = 0, anonymous = 0;
  std::optional<uint64_t> own_memory;
};

// One sample per operation (saturating at 4.29 s), so that percentiles are exact and recording
// costs one store.
class Samples {
 public:
  explicit Samples(size_t ops) : nanos_(ops, 1) {}
  size_t size() const { return nanos_.size(); }
  void set(size_t at, uint64_t nanos) { nanos_[at] = static_cast<uint32_t>(std::min<uint64_t>(nanos, UINT32_MAX)); }

  // Nearest rank; reorders the samples.
  uint32_t percentile(double share) {
    auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(nanos_.size())));
    auto place = nanos_.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(nanos_.begin(), place, nanos_.end());
    return *place;
  }
  uint32_t longest() const { return *std::max_element(nanos_.begin(), nanos_.end()); }

 private:
  std::vector<uint32_t> nanos_;
};

// Times `each(0..ops)` with one clock read per operation. A sample has the operation, the making of
// its key and value, and the check of its result; `harness_ns` is the cost of all but the
// operation.
template <class Each>
double timed(Samples& samples, Each each) {
  auto start = Clock::now(), last = start;
  for (size_t at = 0; at < samples.size(); at++) {
    each(at);
    auto now = Clock::now();
    samples.set(at, nanoseconds(now - last));
    last = now;
  }
  return static_cast<double>(nanoseconds(last - start)) * 1e-9;
}

template <class Peer, class Each>
Reading phase(const char* name, Peer& peer, const Setup& setup, const Memory& base, Samples& samples, Each each) {
  Reading reading;
  reading.name = name;
  reading.ops = samples.size();
  double cpu = cpu_seconds();
  reading.seconds = timed(samples, each);
  reading.cpu = cpu_seconds() - cpu;

  cpu = cpu_seconds();
  auto start = Clock::now();
  peer.settle();
  reading.settle_seconds = static_cast<double>(nanoseconds(Clock::now() - start)) * 1e-9;
  reading.settle_cpu = cpu_seconds() - cpu;

  reading.longest = samples.longest();
  reading.p50 = samples.percentile(0.5);
  reading.p99 = samples.percentile(0.99);
  reading.p999 = samples.percentile(0.999);
  Memory memory = Memory::now();
  reading.disk = disk_bytes(setup.dir);
  reading.rss = memory.rss - std::min(memory.rss, base.rss);
  reading.anonymous = memory.anonymous - std::min(memory.anonymous, base.anonymous);
  reading.own_memory = peer.own_memory_bytes();
  return reading;
}

// ---------------------------------------------------------------- the run

// Records checked again, untimed, after a phase that changed them.
constexpr uint64_t SPOT_CHECKS = 1000;

// Makes the compiler assume that the bytes are read, so that it cannot omit their making.
template <class Bytes>
void made(const Bytes& bytes) {
  asm volatile("" : : "r"(bytes.data()) : "memory");
}

template <class Peer>
void expect(Peer& peer, const Records& records, uint64_t index, std::optional<uint8_t> version) {
  Value found{};
  bool present = peer.get(records.key(index), found);
  if (present != version.has_value())
    fail("record " + std::to_string(index) + (present ? " is there after its removal" : " is missing"));
  if (present && found != records.value(index, *version)) fail("record " + std::to_string(index) + " has a wrong value");
}

template <class Peer>
std::vector<Reading> phases(const Setup& setup, double& harness_ns) {
  const Records records{setup.seed};
  std::vector<uint32_t> order(setup.records);
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<uint32_t>(i);
  Samples samples(setup.records);
  std::vector<uint8_t> versions(setup.mixed ? setup.records : 0, 1);

  harness_ns = timed(samples, [&](size_t at) {
                 made(records.key(at));
                 made(records.value(at, 0));
               }) * 1e9 / static_cast<double>(setup.records);

  const Memory base = Memory::now();
  Peer peer(setup);
  std::vector<Reading> readings;
  auto run = [&](const char* name, auto each) {
    readings.push_back(phase(name, peer, setup, base, samples, each));
  };
  auto spot_check = [&](std::optional<uint8_t> version) {
    for (uint64_t i = 0; i < std::min(SPOT_CHECKS, setup.records); i++) expect(peer, records, order[i], version);
  };

  run("insert", [&](size_t at) { peer.put(records.key(at), records.value(at, 0)); });
  shuffle(order, setup.seed + 1);
  run("lookup", [&](size_t at) { expect(peer, records, order[at], 0); });
  shuffle(order, setup.seed + 2);
  run("overwrite", [&](size_t at) { peer.put(records.key(order[at]), records.value(order[at], 1)); });
  spot_check(1);
  if (setup.mixed) {
    // Half lookups, half overwrites, of uniformly drawn records.
    uint64_t state = mix(setup.seed + 3);
    run("mixed", [&](size_t) {
      state += GAMMA;
      uint64_t draw = mix(state);
      auto index = static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * setup.records) >> 64);
      if (draw & 1) {
        expect(peer, records, index, versions[index]);
      } else {
        peer.put(records.key(index), records.value(index, ++versions[index]));
      }
    });
  }
  shuffle(order, setup.seed + 4);
  run("remove", [&](size_t at) { peer.remove(records.key(order[at])); });
  spot_check(std::nullopt);
  peer.close();
  return readings;
}

inline Setup parse(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i < argc; i++) {
    std::string name = argv[i];
    if (name == "--mixed") {
      setup.mixed = true;
      continue;
    }
    if (i + 1 == argc) fail(name + " needs a value");
    std::string value = argv[++i];
    if (name == "--dir") setup.dir = value;
    else if (name == "--records") setup.records = std::stoull(value);
    else if (name == "--seed") setup.seed = std::stoull(value);
    else if (name == "--variant") setup.variant = value;
    else if (name != "--partitions") fail("unknown argument " + name);  // a peer is always one database
  }
  if (setup.dir.empty() || setup.records == 0) fail("--dir and --records are needed");
  return setup;
}

template <class Peer>
int run(int argc, char** argv) {
  try {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a driver that is killed leaves nothing running
    const Setup setup = parse(argc, argv);
    double harness_ns = 0;
    const auto readings = phases<Peer>(setup, harness_ns);
    std::printf("{\"subject\":\"%s\",\"version\":\"%s\",\"mode\":\"%s\",\"crash_safe\":\"%s\",\"records\":%llu,"
                "\"partitions\":1,\"harness_ns\":%.1f,\"phases\":[",
                Peer::name(setup), Peer::version().c_str(), Peer::mode(setup), Peer::crash_safe(setup),
                static_cast<unsigned long long>(setup.records), harness_ns);
    bool first = true;
    for (const auto& r : readings) {
      std::string own = r.own_memory ? std::to_string(*r.own_memory) : "null";
      std::printf("%s{\"name\":\"%s\",\"ops\":%llu,\"seconds\":%.9f,\"settle_seconds\":%.9f,\"p50_ns\":%u,\"p99_ns\":%u,"
                  "\"p999_ns\":%u,\"longest_ns\":%u,\"cpu_seconds\":%.9f,\"settle_cpu_seconds\":%.9f,\"disk_bytes\":%llu,"
                  "\"rss_bytes\":%llu,\"anonymous_bytes\":%llu,\"own_memory_bytes\":%s}",
                  first ? "" : ",", r.name.c_str(), static_cast<unsigned long long>(r.ops), r.seconds, r.settle_seconds,
                  r.p50, r.p99, r.p999, r.longest, r.cpu, r.settle_cpu, static_cast<unsigned long long>(r.disk),
                  static_cast<unsigned long long>(r.rss), static_cast<unsigned long long>(r.anonymous), own.c_str());
      first = false;
    }
    std::printf("]}\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace bench
