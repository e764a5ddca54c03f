//! Sends the metrics to a receiver of OTLP. In: each report of a new count. Out: the same series as on the page, by Protocol Buffers over
//! HTTP, and how many of them the receiver took.
//!
//! The sender runs on the thread that serves. A receiver that is away or slow delays only this task. Points that were not taken are
//! counted, and not sent again, since the next count replaces them.

use std::fmt;
use std::sync::Arc;

use allocanary_rows::fleet::{NodeReport, OtlpDelivery};
use bytes::Bytes;
use hyper::Uri;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value as Text};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric::Data,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::client::{Trust, bracketed, post};
use crate::desk::Desk;
use crate::metrics::{self, Labels, plain};

/// The content type of a request.
const KIND: &str = "application/x-protobuf";
/// The path for metrics, which is appended to the user's URL.
const PATH: &str = "v1/metrics";
/// The most points in a request. All points of a large node at once would be megabytes.
const MOST: usize = 2000;
const NANOS: u64 = 1_000_000;

/// Sends the metrics of reports.
#[derive(Debug)]
pub struct Sender {
    url: String,
    /// When the counters started, in nanoseconds since 1970.
    since: u64,
}

/// A request, and how many points it has.
type Piece = (Bytes, u64);

impl Sender {
    /// A sender to the receiver at this URL: `http://127.0.0.1:4318`. `since` is when the counters started, in milliseconds since 1970.
    pub fn new(url: &str, since: u64) -> Result<Sender, String> {
        let url = bracketed(url);
        let uri: Result<Uri, _> = url.parse();
        // The URL would be in the report's problems, which anyone who scrapes may read.
        if uri.as_ref().is_ok_and(|uri| uri.authority().is_some_and(|authority| authority.as_str().contains('@'))) {
            return Err("--otlp: wanted http://HOST:PORT, found a user or a password in it, which are not sent".into());
        }
        let is_http = uri.is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.query().is_none());
        if !is_http {
            return Err(format!(
                "--otlp {url}: wanted http://HOST:PORT: for a receiver that wants TLS, put a collector of OTLP on this node"
            ));
        }
        Ok(Sender { url: format!("{}/{PATH}", url.trim_end_matches('/')), since: since.saturating_mul(NANOS) })
    }

    /// Sends each report of a new count, for ever.
    pub async fn send(self, desk: Arc<Desk>) {
        let (mut sent, mut last) = (OtlpDelivery::default(), 0);
        loop {
            desk.send(sent.clone());
            desk.news().await;
            let shown = desk.shown();
            // Between two counts, a report may only have more heaps.
            if shown.report.taken == last {
                continue;
            }
            last = shown.report.taken;
            let pieces = self.pieces(&shown.report);
            drop(shown);
            match pieces {
                Ok(pieces) => self.send_all(pieces, &mut sent).await,
                Err(error) => sent.problem = format!("the metrics could not be written: {error}"),
            }
        }
    }

    /// Sends the requests of a report. After one that does not arrive, the others are not tried.
    async fn send_all(&self, pieces: Vec<Piece>, sent: &mut OtlpDelivery) {
        sent.problem.clear();
        let mut is_lost = false;
        for (request, points) in pieces {
            let answer = match is_lost {
                true => None,
                false => {
                    Some(post(&self.url, &Trust::default(), (KIND, request)).await.and_then(|answer| refused(&answer)))
                }
            };
            match answer {
                Some(Ok((rejected, why))) => {
                    let rejected = rejected.min(points);
                    sent.rejected += rejected;
                    sent.accepted += points - rejected;
                    if !why.is_empty() {
                        sent.problem = format!("{}: {rejected} points were refused: {why}", self.url);
                    }
                }
                Some(Err(why)) => {
                    (sent.problem, is_lost) = (plain(&why), true);
                    sent.failed += points;
                }
                None => sent.failed += points,
            }
        }
    }

    /// The requests of a report, each with at most `MOST` points.
    fn pieces(&self, report: &NodeReport) -> Result<Vec<Piece>, fmt::Error> {
        let mut pieces = Vec::new();
        let (mut piece, mut points) = (Vec::new(), 0);
        metrics::each(report, &mut |metric| {
            let metrics::MetricSeries { name, help, unit, is_counter, mut series } = metric;
            let unit = unit.as_ref().map_or("", |unit| unit_of(unit.as_str()));
            while !series.is_empty() {
                let some = series.split_off(series.len().saturating_sub(MOST - points));
                points += some.len();
                let data_points = some.into_iter().map(|(labels, value)| self.point(labels, value, report)).collect();
                let data = match is_counter {
                    true => Data::Sum(Sum {
                        data_points,
                        aggregation_temporality: AggregationTemporality::Cumulative.into(),
                        is_monotonic: true,
                    }),
                    false => Data::Gauge(Gauge { data_points }),
                };
                piece.push(Metric {
                    name: name.into(),
                    description: help.into(),
                    unit: unit.into(),
                    data: Some(data),
                    ..Metric::default()
                });
                if points == MOST {
                    pieces.push((request(report, std::mem::take(&mut piece)), points as u64));
                    points = 0;
                }
            }
            Ok(())
        })?;
        if points > 0 {
            pieces.push((request(report, piece), points as u64));
        }
        Ok(pieces)
    }

    fn point(&self, labels: Labels, value: f64, report: &NodeReport) -> NumberDataPoint {
        // A label without a value says nothing.
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let time_unix_nano = report.taken.saturating_mul(NANOS);
        NumberDataPoint {
            attributes: labels.map(|(name, value)| pair(key_of(name), value)).collect(),
            // Receivers refuse a start after the time of a point. The clock may have been set back since.
            start_time_unix_nano: self.since.min(time_unix_nano),
            time_unix_nano,
            value: Some(Value::AsDouble(value)),
            ..NumberDataPoint::default()
        }
    }
}

fn request(report: &NodeReport, metrics: Vec<Metric>) -> Bytes {
    let scope = InstrumentationScope {
        name: "allocanary".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let attributes = vec![pair("service.name", "allocanary-node".into()), pair("host.name", report.node.clone())];
    let resource = Resource { attributes, ..Resource::default() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec().into()
}

fn pair(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(Text::StringValue(value)) }), ..KeyValue::default() }
}

/// The name that OpenTelemetry has for a label.
fn key_of(label: &str) -> &str {
    match label {
        "namespace" => "k8s.namespace.name",
        "pod" => "k8s.pod.name",
        "container" => "k8s.container.name",
        other => other,
    }
}

/// The unit as OpenTelemetry writes it. A receiver that makes Prometheus' series of it appends the same word as our page.
fn unit_of(unit: &str) -> &str {
    match unit {
        "bytes" => "By",
        "seconds" => "s",
        other => other,
    }
}

/// How many points the receiver refused, and why. A warning refuses none.
fn refused(answer: &[u8]) -> Result<(u64, String), String> {
    let answer = ExportMetricsServiceResponse::decode(answer).map_err(|error| {
        format!("wanted the answer of a receiver of OTLP, found something else ({error}): is it the port for OTLP over HTTP?")
    })?;
    let partly = answer.partial_success.unwrap_or_default();
    Ok((partly.rejected_data_points.max(0) as u64, plain(&partly.error_message)))
}

#[cfg(test)]
#[path = "otlp_test.rs"]
mod tests;
