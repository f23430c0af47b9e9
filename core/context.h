// Context: the modes of this thread. Changed by RAII guards only; nothing else in the library is thread-local.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"

namespace mixtape {

struct CastRule;
struct Observer;
struct OpSchema;

/// A frame of the scope stack ("encoder" / "layer.3" / …), shared by everyone who remembers it.
struct ScopeFrame {
  std::shared_ptr<const ScopeFrame> parent;
  std::string name;
};
/// "encoder.layer.3"; "" at the top.
std::string scope_path(const ScopeFrame* frame);

struct Context {
  bool grad_enabled = true;
  std::shared_ptr<const CastRule> cast_rule;  ///< null: no autocast
  RngCoordinates rng;                         ///< of the next random draw; `draw` counts up within a forward
  std::shared_ptr<const ScopeFrame> scope;
  Observer* observer = nullptr;
  bool fused = true;  ///< functions that have a fused row use it where the policy allows; false: their composed twins
  std::shared_ptr<const std::vector<const OpSchema*>> composed;  ///< rows that are not used all the same; null: none
  /// Whether the composed twin of this fused row is to run, whatever the policy says.
  bool composes(const OpSchema& row) const;
};

Context& context();

/// Restores the whole context when it ends; what is between may change any mode.
class ContextGuard {
 public:
  ContextGuard() : saved_(context()) {}
  explicit ContextGuard(Context modes) : ContextGuard() { context() = std::move(modes); }
  ~ContextGuard() { context() = std::move(saved_); }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Context saved_;
};

/// No recording while it lives.
class NoGradGuard {
 public:
  NoGradGuard() : saved_(context().grad_enabled) { context().grad_enabled = false; }
  ~NoGradGuard() { context().grad_enabled = saved_; }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool saved_;
};

/// Composed ops alone while it lives: to look inside a fused row, to differentiate twice, to be its oracle. Of all
/// fused rows, or of `rows`, in place of those that were composed before.
class ComposedGuard {
 public:
  ComposedGuard() : ComposedGuard(context().composed) { context().fused = false; }
  explicit ComposedGuard(std::vector<const OpSchema*> rows)
      : ComposedGuard(std::make_shared<const std::vector<const OpSchema*>>(std::move(rows))) {}
  ~ComposedGuard() {
    context().fused = fused_;
    context().composed = std::move(composed_);
  }
  ComposedGuard(const ComposedGuard&) = delete;
  ComposedGuard& operator=(const ComposedGuard&) = delete;

 private:
  using Rows = std::shared_ptr<const std::vector<const OpSchema*>>;
  explicit ComposedGuard(Rows rows) : fused_(context().fused), composed_(context().composed) {
    context().composed = std::move(rows);
  }

  bool fused_;
  Rows composed_;
};

/// Names the part of the model that runs: errors, nodes and the ledger carry the path.
class Scope {
 public:
  explicit Scope(std::string name);
  ~Scope() { context().scope = std::move(saved_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<const ScopeFrame> saved_;
};

/// Sets the place of the coming random draws: a forward of (step, micro_step) starts at draw 0.
class RngGuard {
 public:
  explicit RngGuard(const RngCoordinates& at) : saved_(context().rng) { context().rng = at; }
  ~RngGuard() { context().rng = saved_; }
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  RngCoordinates saved_;
};

/// Installs an observer (ledger, histograms) for this thread.
class ObserverGuard {
 public:
  explicit ObserverGuard(Observer& observer) : saved_(context().observer) { context().observer = &observer; }
  ~ObserverGuard() { context().observer = saved_; }
  ObserverGuard(const ObserverGuard&) = delete;
  ObserverGuard& operator=(const ObserverGuard&) = delete;

 private:
  Observer* saved_;
};

}  // namespace mixtape
