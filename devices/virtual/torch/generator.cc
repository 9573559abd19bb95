// SPDX-License-Identifier: Apache-2.0
#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <mutex>
#include <vector>

#include "table.h"

namespace virtual_torch {
namespace {

class Generator final : public c10::GeneratorImpl {
 public:
  Generator(c10::DeviceIndex index, at::Generator seeds)
      : GeneratorImpl(DeviceAt(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        seeds_(std::move(seeds)) {}
  explicit Generator(c10::DeviceIndex index) : Generator(index, at::detail::createCPUGenerator()) {}

  std::uint64_t Draw() {
    const std::lock_guard lock(mutex_);
    return at::check_generator<at::CPUGeneratorImpl>(seeds_)->random64();
  }
  void set_current_seed(std::uint64_t seed) override { seeds_.set_current_seed(seed); }
  void set_offset(std::uint64_t) override { NoOffset(); }
  std::uint64_t get_offset() const override { NoOffset(); }
  std::uint64_t current_seed() const override { return seeds_.current_seed(); }
  std::uint64_t seed() override { return seeds_.seed(); }
  void set_state(const c10::TensorImpl& state) override {
    seeds_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return seeds_.unsafeGetGeneratorImpl()->get_state();
  }
  GeneratorImpl* clone_impl() const override {
    return new Generator(device_.index(), seeds_.clone());
  }

 private:
  [[noreturn]] static void NoOffset() {
    Raise(ANYOP_UNSUPPORTED, Word() + ": a generator has no offset.");
  }
  at::Generator seeds_;
};

}  // namespace

const at::Generator& DefaultGenerator(c10::DeviceIndex index) {
  static const auto& all = *[] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex d = 0; d < Table()->count(); ++d) made->push_back(NewGenerator(d));
    return made;
  }();
  return all.at(std::size_t(DeviceAt(index).index()));
}

at::Generator NewGenerator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(DeviceAt(index).index());
}

at::Generator ForWork(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kType, "Expected a '", Word(),
              "' device type for generator but found '", generator.device(), "'");
  return at::detail::createCPUGenerator(
      static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->Draw());
}

}  // namespace virtual_torch
