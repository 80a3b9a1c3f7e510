// An external metrics server of one metric: the lag that KEDA's Kafka scaler reports.
//
//	lag TRIGGER.json PORT
//
// TRIGGER.json holds the metadata of a ScaledObject's trigger. The first line on standard output is
// the metric as KEDA writes it into its HorizontalPodAutoscaler; then HTTPS is served on 127.0.0.1.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
	"newsift.local/lag/scalers"
)

const group = "/apis/external.metrics.k8s.io/v1beta1"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: lag TRIGGER.json PORT")
	}
	text, err := os.ReadFile(os.Args[1])
	check(err)
	metadata := map[string]string{}
	check(json.Unmarshal(text, &metadata))
	scaler, err := scalers.NewKafkaScaler(context.Background(), &scalersconfig.ScalerConfig{
		TriggerMetadata:   metadata,
		GlobalHTTPTimeout: 3 * time.Second,
	})
	check(err)
	spec := scaler.GetMetricSpecForScaling(context.Background())[0]
	check(json.NewEncoder(os.Stdout).Encode(spec))

	http.HandleFunc(group, func(w http.ResponseWriter, _ *http.Request) {
		list := metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "external.metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{
				Name: spec.External.Metric.Name, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: []string{"get"},
			}},
		}
		answer(w, list)
	})
	http.HandleFunc(group+"/namespaces/", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		values, _, err := scaler.GetMetricsAndActivity(r.Context(), name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		list := v1beta1.ExternalMetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
		}
		for _, value := range values {
			list.Items = append(list.Items, v1beta1.ExternalMetricValue{
				MetricName: value.MetricName, MetricLabels: map[string]string{}, Timestamp: value.Timestamp, Value: value.Value,
			})
		}
		answer(w, list)
	})
	server := http.Server{Addr: "127.0.0.1:" + os.Args[2], TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// A certificate that nobody checks: the API server is told not to.
func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	now := time.Now()
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
