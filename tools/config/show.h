// The configuration for people and programs: values with their origin, and the generated reference page.
#pragma once

#include <string>
#include <vector>

#include "tools/config/config.h"

namespace mixtape::config {

struct Field;

/// Whether the effective configuration holds the field: only what counts, so that loading it gives the same run again.
bool counts(const Config& config, const Field& field);

/// A field that a reader wants to see: one that counts, or came from a model's directory.
struct ShownValue {
  std::string key, value, origin;  ///< "trainer.seed", its JSON, "my.json:14:5"
  bool is_default = false;         ///< the value is the default's, wherever it stands
};
std::vector<ShownValue> shown_values(const Config& config);

/// One line a field: `trainer.seed = 42   default`.
std::string show_text(const Config& config);

/// {"config":{…},"origins":{"trainer.seed":"default",…}}, indented.
std::string show_json(const Config& config);

/// docs/reference/config.md, from the field table.
std::string reference_page();

}  // namespace mixtape::config
