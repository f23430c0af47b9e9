#include "data/zip_file.h"

#include <zip.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace mixtape::data {
namespace {

constexpr uint64_t max_members = 2 * weight_limit::tensors + 64;  // storages, and a few that describe the file
constexpr uint64_t max_directory = 16'000'000;
constexpr size_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, max_comment = 65'535;

uint64_t number_at(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint64_t out = 0;
  for (size_t i = 0; i < count; ++i) out |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  return out;
}

bool has_signature(std::span<const std::byte> bytes, size_t at, char third, char fourth) {
  const auto is = [&](size_t i, char c) { return bytes[at + i] == static_cast<std::byte>(c); };
  return at + 4 <= bytes.size() && is(0, 'P') && is(1, 'K') && is(2, third) && is(3, fourth);
}

/// libzip allocates by the numbers of the end record: they are checked first, in each place where it may find one.
std::string check_end(const ByteSource& source) {
  const uint64_t window = end_bytes + max_comment + locator_bytes;
  const std::vector<std::byte> tail = source.read(source.size() - std::min(source.size(), window), window);
  bool found = false;
  for (size_t at = 0; at + end_bytes <= tail.size(); ++at) {
    if (!has_signature(tail, at, 5, 6)) continue;
    found = true;
    uint64_t entries = number_at(tail, at + 10, 2), directory = number_at(tail, at + 12, 4);
    if (directory == 0xFFFFFFFF) directory = 0;  // the wide record has it
    if (at >= locator_bytes && has_signature(tail, at - locator_bytes, 6, 7)) {
      const std::vector<std::byte> wide = source.read(number_at(tail, at - locator_bytes + 8, 8), end64_bytes);
      if (wide.size() < end64_bytes) return "its end record lies outside the file";
      entries = std::max({entries, number_at(wide, 24, 8), number_at(wide, 32, 8)});
      directory = std::max(directory, number_at(wide, 40, 8));
    }
    if (entries > max_members || directory > max_directory) {
      return message("it lists more members (", entries, ", in ", directory, " bytes) than a weight file may have");
    }
  }
  return found ? "" : "it has no end record: the file is cut off";
}

}  // namespace

struct ZipFile::Archive {
  explicit Archive(const ByteSource& from) : source(from) {}
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive() {
    if (zip) zip_discard(zip);
    zip_error_fini(&error);
  }
  static zip_int64_t serve(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command);
  zip_int64_t read(void* data, zip_uint64_t length);
  zip_int64_t seek(void* data, zip_uint64_t length);
  std::string open();
  /// Exceptions must not cross libzip: they wait here.
  void rethrow() {
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }

  const ByteSource& source;
  zip_t* zip = nullptr;
  zip_error_t error{};
  uint64_t position = 0;
  std::exception_ptr failure;
};

zip_int64_t ZipFile::Archive::read(void* data, zip_uint64_t length) {
  try {
    const size_t got = source.read_at(position, std::span(static_cast<std::byte*>(data), static_cast<size_t>(length)));
    position += got;
    return static_cast<zip_int64_t>(got);
  } catch (...) {
    failure = std::current_exception();
    zip_error_set(&error, ZIP_ER_READ, 0);
    return -1;
  }
}

zip_int64_t ZipFile::Archive::seek(void* data, zip_uint64_t length) {
  const zip_int64_t to = zip_source_seek_compute_offset(position, source.size(), data, length, &error);
  if (to < 0) return -1;
  position = static_cast<uint64_t>(to);
  return 0;
}

zip_int64_t ZipFile::Archive::serve(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  Archive& archive = *static_cast<Archive*>(self);
  switch (command) {
    case ZIP_SOURCE_OPEN: archive.position = 0; return 0;
    case ZIP_SOURCE_READ: return archive.read(data, length);
    case ZIP_SOURCE_SEEK: return archive.seek(data, length);
    case ZIP_SOURCE_TELL: return static_cast<zip_int64_t>(archive.position);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&archive.error, data, length);
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    case ZIP_SOURCE_STAT: {
      zip_stat_t& stat = *static_cast<zip_stat_t*>(data);
      zip_stat_init(&stat);
      stat.size = archive.source.size();
      stat.valid |= ZIP_STAT_SIZE;
      return sizeof stat;
    }
    default: zip_error_set(&archive.error, ZIP_ER_OPNOTSUPP, 0); return -1;
  }
}

std::string ZipFile::Archive::open() {
  if (std::string why = check_end(source); !why.empty()) return why;
  zip_error_t failed;
  zip_error_init(&failed);
  zip_source_t* const from = zip_source_function_create(serve, this, &failed);
  if (from) zip = zip_open_from_source(from, ZIP_RDONLY, &failed);
  std::string why = zip ? "" : zip_error_strerror(&failed);
  if (from && !zip) zip_source_free(from);
  zip_error_fini(&failed);
  rethrow();
  return why;
}

ZipFile::ZipFile(std::unique_ptr<Archive> archive) : archive_(std::move(archive)) {}
ZipFile::ZipFile(ZipFile&&) noexcept = default;
ZipFile::~ZipFile() = default;

Parsed<ZipFile> ZipFile::open(const ByteSource& source) {
  auto archive = std::make_unique<Archive>(source);
  if (std::string why = archive->open(); !why.empty()) return {{}, std::move(why)};
  ZipFile file(std::move(archive));
  if (std::string why = file.list(); !why.empty()) return {{}, std::move(why)};
  return {std::move(file), {}};
}

std::string ZipFile::list() {
  const uint64_t count = static_cast<uint64_t>(std::max<zip_int64_t>(zip_get_num_entries(archive_->zip, 0), 0));
  if (count > max_members) return message("it lists more than ", max_members, " members");
  std::vector<std::pair<ZipMember, uint64_t>> found;
  for (uint64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    const char* const name = zip_get_name(archive_->zip, i, ZIP_FL_ENC_RAW);
    constexpr zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (!name || zip_stat_index(archive_->zip, i, 0, &stat) != 0 || (stat.valid & needed) != needed) {
      return message("its member ", i, " cannot be read: ", zip_strerror(archive_->zip));
    }
    const bool stored = stat.comp_method == ZIP_CM_STORE && stat.encryption_method == ZIP_EM_NONE;
    found.push_back({{name, stat.size, stored}, i});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first.name < b.first.name; });
  for (auto& [member, place] : found) {
    if (!members_.empty() && members_.back().name == member.name) {
      return message("two members are named ", data::quoted(member.name));
    }
    members_.push_back(std::move(member));
    places_.push_back(place);
  }
  return "";
}

const ZipMember* ZipFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(members_.begin(), members_.end(), name,
                       [](const ZipMember& member, std::string_view wanted) { return member.name < wanted; });
  return at != members_.end() && at->name == name ? &*at : nullptr;
}

std::string ZipFile::read(const ZipMember& member, uint64_t offset, std::span<std::byte> target) const {
  const auto because = [&](const std::string& why) {
    return message("its member ", data::quoted(member.name), " ", why);
  };
  if (!member.stored)
    return because("is compressed or encrypted, which PyTorch never does; save the file anew with torch.save");
  if (offset > member.bytes || target.size() > member.bytes - offset) return because("is too short");
  const uint64_t place = places_[static_cast<size_t>(&member - members_.data())];
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(archive_->zip, place, 0), zip_fclose);
  archive_->rethrow();
  if (!file) return because(std::string("cannot be read: ") + zip_strerror(archive_->zip));
  const auto failed = [&] {
    archive_->rethrow();
    return because(std::string("cannot be read: ") + zip_file_strerror(file.get()));
  };
  if (offset > 0 && zip_fseek(file.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) return failed();
  const uint64_t wanted = target.size();
  while (!target.empty()) {
    const zip_int64_t got = zip_fread(file.get(), target.data(), target.size());
    if (got < 0) return failed();
    if (got == 0) return because("is cut off");
    target = target.subspan(static_cast<size_t>(got));
  }
  if (wanted != member.bytes) return "";
  std::byte more;  // the checksum is compared when the end is seen
  const zip_int64_t left = zip_fread(file.get(), &more, 1);
  return left < 0 ? failed() : left > 0 ? because("is longer than the zip says") : "";
}

}  // namespace mixtape::data
