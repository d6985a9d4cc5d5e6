#include "lib/bench/run.hpp"

#include <fmt/format.h>

#include <cmath>

#include "lib/app/interrupt.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/log.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/text.hpp"
#include "lib/base/units.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::bench {

using nlohmann::json;

Run::Run(const app::Context& context, Backend backend, comm::Transport transport)
    : context_(context),
      outputs_(app::preflight_outputs(context)),
      device_(context.own_device(backend)) {
  if (backend == Backend::cuda && !context.gpus.warning.empty()) log::warn(context.gpus.warning);
  head_ = app::run_trace(context, backend, transport);
}

void Run::print(const std::string& text) const {
  if (context_.is_root()) standard_output::write(text);
}

void Run::end_if_interrupted(const std::string& where) const {
  if (const int signal = app::agreed_interrupt(control()); signal != 0) {
    throw app::nothing_kept(signal, where);
  }
}

void Run::write(const trace::Document& document, const std::function<json()>& summary) const {
  app::write_outputs(context_, outputs_, document, summary);
  print(fmt::format("# {:<20} : {}\n", "Trace", context_.describe_trace()));
}

json json_head(const char* schema, const char* version, const trace::TraceData& run) {
  json provenance = trace::to_json(trace::describe_run(run));
  json config = std::move(provenance["config"]);
  provenance.erase("config");
  return {{"schema", schema},
          {"schema_version", version},
          {"software_version", run.provenance.version},
          {"start_time", run.provenance.started_at},
          {"end_time", utc(std::time(nullptr))},
          {"provenance", std::move(provenance)},
          {"config", std::move(config)}};
}

json devices(const trace::TraceData& run) {
  json list = json::array();
  for (const trace::RankRow& rank : run.ranks) {
    list.push_back({{"rank", list.size()},
                    {"group", 0},
                    {"pid", rank.pid},
                    {"hostname", rank.host},
                    {"node", rank.node},
                    {"device", rank.local_rank},
                    {"device_hex", rank.gpu_pci},
                    {"device_info", rank.gpu.empty() ? "host" : rank.gpu}});
  }
  return list;
}

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json microseconds(const std::vector<double>& seconds) {
  json list = json::array();
  for (const double value : seconds) list.push_back(value / kMicro);
  return list;
}

}  // namespace zeropp::bench
