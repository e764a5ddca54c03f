//! What a receiver gets, and what it may answer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;

use allocanary_rows::fleet::{ContainerState, Own, Part, Parts};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;

use super::*;

fn report(containers: usize) -> NodeReport {
    let mut parts = Parts::default();
    parts.add(Part::Live, 7);
    let row = |at: usize| ContainerState {
        namespace: "shop".into(),
        pod: format!("web-{at}"),
        container: "web".into(),
        allocator: "glibc".into(),
        quota_milli: Some(500),
        parts,
        ..ContainerState::default()
    };
    let own = Own { cpu: 3.0, cpu_counts: 1.0, walks: 5, ..Own::default() };
    NodeReport {
        node: "n1".into(),
        taken: 1_700_000_000_123,
        rows: (0..containers).map(row).collect(),
        own,
        ..NodeReport::default()
    }
}

fn decoded(pieces: &[Piece]) -> Vec<ResourceMetrics> {
    let decode = |(request, _): &Piece| ExportMetricsServiceRequest::decode(request.clone()).unwrap().resource_metrics;
    pieces.iter().flat_map(decode).collect()
}

fn text(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Text::StringValue(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), value(one))).collect()
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality == AggregationTemporality::Cumulative as i32);
            &sum.data_points
        }
        other => panic!("{other:?}"),
    }
}

/// A series by the names and labels of the page.
type Series = (String, BTreeMap<String, String>, String);

/// What Prometheus makes of the requests: the unit is a word of the name, and so is that a metric counts.
fn as_prometheus(all: &[ResourceMetrics]) -> BTreeSet<Series> {
    let mut found = BTreeSet::new();
    for metric in all.iter().flat_map(|one| &one.scope_metrics).flat_map(|one| &one.metrics) {
        let unit = match metric.unit.as_str() {
            "" => "".into(),
            "By" => "_bytes".into(),
            "s" => "_seconds".into(),
            other => format!("_{other}"),
        };
        let total = if matches!(metric.data, Some(Data::Sum(_))) { "_total" } else { "" };
        for point in points(metric) {
            let name = |key: &str| match key.strip_prefix("k8s.").and_then(|key| key.strip_suffix(".name")) {
                Some(own) => own.to_string(),
                None => key.to_string(),
            };
            let labels = text(&point.attributes).into_iter().map(|(key, value)| (name(&key), value)).collect();
            let Some(Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
            assert!(
                found.insert((format!("{}{unit}{total}", metric.name), labels, format!("{value:?}"))),
                "{metric:?}"
            );
        }
    }
    found
}

/// The series of the page.
fn of_page(report: &NodeReport) -> BTreeSet<Series> {
    let page = metrics::page(report.clone().into()).unwrap();
    let line = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        // Only the last one has its closing quote then.
        let labels = labels.trim_end_matches('}');
        let labels = labels.strip_suffix('"').unwrap_or(labels).split("\",").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.split_once("=\"").unwrap());
        let labels = labels.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.into(), value.into()));
        (name.to_string(), labels.collect(), value.to_string())
    };
    page.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn sender() -> Sender {
    Sender::new("http://127.0.0.1:1/", 1_600_000_000_000).unwrap()
}

#[test]
fn a_receiver_gets_the_series_of_the_page_and_whose_they_are() {
    let report = report(3);
    let pieces = sender().pieces(&report).unwrap();
    let all = decoded(&pieces);
    assert_eq!(as_prometheus(&all), of_page(&report));
    assert_eq!(pieces.iter().map(|(_, points)| *points as usize).sum::<usize>(), of_page(&report).len());
    let resource = text(&all[0].resource.as_ref().unwrap().attributes);
    assert_eq!((resource["host.name"].as_str(), resource["service.name"].as_str()), ("n1", "allocanary-node"));
    let memory = &all[0].scope_metrics[0].metrics[0];
    let labels = text(&points(memory)[0].attributes);
    assert_eq!(labels["k8s.namespace.name"], "shop");
    assert!(labels.contains_key("k8s.pod.name") && labels["k8s.container.name"] == "web", "{labels:?}");
    let point = &points(memory)[0];
    assert_eq!(point.time_unix_nano, 1_700_000_000_123_000_000);
    assert_eq!(point.start_time_unix_nano, 1_600_000_000_000_000_000);
    let late = Sender { since: point.time_unix_nano + 1, ..sender() };
    let all = decoded(&late.pieces(&report).unwrap());
    let is_valid = |point: &NumberDataPoint| point.start_time_unix_nano <= point.time_unix_nano;
    let metrics = all.iter().flat_map(|one| &one.scope_metrics).flat_map(|one| &one.metrics);
    assert!(metrics.flat_map(points).all(is_valid), "the clock was set back");
}

#[test]
fn a_large_node_is_several_requests_and_no_series_is_lost() {
    let report = report(1500);
    let pieces = sender().pieces(&report).unwrap();
    assert!(pieces.len() > 2 && pieces.iter().all(|(_, points)| *points as usize <= MOST));
    assert_eq!(as_prometheus(&decoded(&pieces)), of_page(&report));
}

/// A receiver that answers each request with this status and body. It returns what it was sent: path, type, and the series.
fn receiver(answers: Vec<(&'static str, Vec<u8>)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let one = |(status, answer): (&str, Vec<u8>)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = Vec::new();
            let (head, body) = loop {
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece).unwrap();
                got.extend_from_slice(&piece[..count]);
                if let Some(end) = got.windows(4).position(|end| end == b"\r\n\r\n") {
                    break (String::from_utf8(got[..end].to_vec()).unwrap().to_lowercase(), got.split_off(end + 4));
                }
            };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut rest = vec![0; length.parse::<usize>().unwrap() - body.len()];
            stream.read_exact(&mut rest).unwrap();
            let body = [body, rest].concat();
            let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
            assert!(!as_prometheus(&request.resource_metrics).is_empty());
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len()).unwrap();
            stream.write_all(&answer).unwrap();
            head
        };
        answers.into_iter().map(one).collect()
    });
    (url, served)
}

fn partly(rejected_data_points: i64, why: &str) -> Vec<u8> {
    let partial_success = Some(ExportMetricsPartialSuccess { rejected_data_points, error_message: why.into() });
    ExportMetricsServiceResponse { partial_success }.encode_to_vec()
}

/// What became of a report of four requests.
fn sent(url: &str) -> OtlpDelivery {
    let sender = Sender::new(url, 1).unwrap();
    let mut pieces = sender.pieces(&report(1500)).unwrap();
    pieces.truncate(3);
    let mut sent = OtlpDelivery { problem: "of the last time".into(), ..OtlpDelivery::default() };
    crate::client::runtime().unwrap().block_on(sender.send_all(pieces, &mut sent));
    sent
}

#[test]
fn what_a_receiver_refuses_is_counted_and_told() {
    let (url, served) =
        receiver(vec![("200 OK", Vec::new()), ("200 OK", partly(5, "too\nold")), ("200 OK", partly(i64::MAX, "no"))]);
    let told = sent(&url);
    let heads = served.join().unwrap();
    assert!(heads.iter().all(|head| head.starts_with("post /base/v1/metrics http/1.1\r\n")), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("content-type: application/x-protobuf")), "{heads:?}");
    assert_eq!((told.accepted, told.rejected, told.failed), (2000 + 1995, 5 + 2000, 0));
    assert!(told.problem.ends_with("/base/v1/metrics: 2000 points were refused: no"), "{told:?}");
    let (url, served) = receiver(vec![("200 OK", Vec::new()), ("200 OK", Vec::new()), ("200 OK", Vec::new())]);
    assert_eq!(
        sent(&url),
        OtlpDelivery { accepted: 6000, ..OtlpDelivery::default() },
        "an old problem is told no longer"
    );
    served.join().unwrap();
}

#[test]
fn a_receiver_that_fails_is_not_asked_again_before_the_next_count() {
    let (url, served) = receiver(vec![("200 OK", Vec::new()), ("503 Service Unavailable", Vec::new())]);
    let told = sent(&url);
    served.join().unwrap();
    assert_eq!((told.accepted, told.failed), (2000, 4000));
    assert!(told.problem.contains("found 503"), "{told:?}");
    let (url, served) = receiver(vec![("200 OK", b"<html>".to_vec())]);
    let told = sent(&url);
    served.join().unwrap();
    assert!(told.failed == 6000 && told.problem.contains("found something else"), "{told:?}");
    let told = sent("http://127.0.0.1:1");
    assert!(told.failed == 6000 && told.problem.contains("could not be reached"), "{told:?}");
}

#[test]
fn an_address_that_cannot_be_sent_to_is_refused() {
    for bad in ["https://x:4318", "x:4318", "http://x:4318/?a=b", "", "ftp://x"] {
        assert!(Sender::new(bad, 1).unwrap_err().contains("wanted http://HOST:PORT"), "{bad}");
    }
    let secret = Sender::new("http://user:secret@x:4318", 1).unwrap_err();
    assert!(secret.contains("found a user or a password") && !secret.contains("secret@"), "{secret}");
    assert_eq!(Sender::new("http://fd00::1:4318", 1).unwrap().url, "http://[fd00::1]:4318/v1/metrics");
    assert_eq!(Sender::new("http://x:4318", 1).unwrap().url, "http://x:4318/v1/metrics");
    assert_eq!(Sender::new("http://x:4318/a/", 1).unwrap().url, "http://x:4318/a/v1/metrics");
}
