// Hugging Face directories: config.json, the weights, vocab.txt.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "models/classifier.h"

namespace mixtape::models {

/// What a directory says of itself, before any weight is read.
struct PretrainedInfo {
  BertConfig bert;
  std::vector<std::string> class_names;  ///< id2label, by number; empty when there is none
  std::optional<Pooling> pooling;        ///< of the "mixtape" entry that save_pretrained writes
  std::optional<Head> head;
  std::string vocab;              ///< path of vocab.txt; "" when there is none
  std::optional<bool> lowercase;  ///< do_lower_case of tokenizer_config.json
  int64_t model_max_length = 0;   ///< of tokenizer_config.json; 0: not given
};
/// Throws kind model: E-MODEL-MISSING (no directory or config.json), E-MODEL-CONFIG-FILE (not JSON, or a known key that
/// cannot be honoured: hidden_act, position_embedding_type). Unknown keys are ignored.
PretrainedInfo read_pretrained(const std::string& dir);

/// What loading did to the model.
struct LoadReport {
  std::string file;                      ///< that was read
  std::vector<std::string> passed_over;  ///< other weight files of the directory
  int64_t loaded = 0;                    ///< tensors of the encoder
  std::vector<std::string> unused;       ///< tensors of the file that the model has no place for
  bool has_pooler = false;               ///< the file has one, whether the model uses it or not
  bool head_loaded = false;              ///< false: the classifier keeps the weights that it had
  std::string head_note;                 ///< why, in a sentence; empty when it was loaded
};
/// Called before each tensor: so many are read, of so many.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

/// Reads the weights of a directory, whichever files they stand in (data::WeightFile), into `model`; 16-bit weights are
/// widened. One tensor at a time, so that the memory beyond the model's is that of the largest. Names are taken with
/// and without the "bert." prefix, `LayerNorm.gamma|beta` as weight and bias. A sigmoid head is also taken from the
/// exact two-way softmax form W = [0; w], b = [0; b]. Throws E-MODEL-TENSORS (kind model) listing every encoder tensor
/// that is missing (the pooler's too, if the model uses one) and every one of another shape, and then leaves the model
/// as it was.
LoadReport load_pretrained(const BertClassifier& model, const std::string& dir, const LoadProgress& progress = {});

/// Writes the directory that read_pretrained and load_pretrained read, and transformers too: config.json with id2label
/// and a "mixtape" entry, model.safetensors, vocab.txt, tokenizer_config.json, special_tokens_map.json. A sigmoid head
/// is written as the two-way softmax that gives the same probabilities. Errors are kind io.
void save_pretrained(const std::string& dir, const BertClassifier& model, const std::vector<std::string>& class_names,
                     const data::Tokenizer& tokenizer);

}  // namespace mixtape::models
