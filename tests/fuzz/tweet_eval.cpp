// The three files of a split, one after the other with "\n%%\n" between: mapping, labels, texts.
#include "data/tweet_eval.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"
#include "tests/shared.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  static const tests::TempFolder folder;
  for (const char* name : {"mapping.txt", "train_labels.txt", "train_text.txt"}) {
    const size_t end = std::min(bytes.find("\n%%\n"), bytes.size());
    folder.write(name, bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 4, bytes.size()));
  }
  const data::Dataset set = data::read_tweet_eval(folder.path(), "train");
  require(set.rows() > 0 && set.labels.size() == set.texts.size(), "a label for each text");
  for (const int32_t label : set.labels) {
    require(label >= 0 && static_cast<size_t>(label) < set.class_names.size(), "a label is one of the mapping's");
  }
  for (const std::string& text : set.texts) require(text.find('\n') == std::string::npos, "a text is one line");
}

}  // namespace mixtape::fuzz
