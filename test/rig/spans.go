package rig

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is an exported span, with the fields that tests check.
type Span struct {
	Trace, ID, Parent string // lower-case hex; Parent is empty at a root
	Service, Name     string
	Attributes        map[string]string
}

// Spans is an OTLP/HTTP receiver that keeps every span.
type Spans struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

// ReceiveSpans listens on loopback until the test ends.
func ReceiveSpans(t testing.TB) *Spans {
	t.Helper()
	s := &Spans{}
	server := httptest.NewServer(http.HandlerFunc(s.receive))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Spans) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path != "/v1/traces" {
		return // metrics are read from the admin listener
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var got []Span
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, kv := range resource.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" {
				service = kv.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				attributes := make(map[string]string, len(span.GetAttributes()))
				for _, kv := range span.GetAttributes() {
					attributes[kv.GetKey()] = fmt.Sprint(kv.GetValue().GetValue())
				}
				got = append(got, Span{
					Trace: hex.EncodeToString(span.GetTraceId()), ID: hex.EncodeToString(span.GetSpanId()),
					Parent: hex.EncodeToString(span.GetParentSpanId()), Service: service, Name: span.GetName(),
					Attributes: attributes,
				})
			}
		}
	}
	s.mu.Lock()
	s.spans = append(s.spans, got...)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	response, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	_, _ = w.Write(response)
}

// Trace returns the spans of one trace received so far.
func (s *Spans) Trace(id string) []Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Span
	for _, span := range s.spans {
		if span.Trace == id {
			found = append(found, span)
		}
	}
	return found
}

// Edges lists "service: parent -> service: child" of a trace, sorted, each once. A span whose parent is
// neither in the trace nor the given root is an orphan.
func Edges(spans []Span, root string) (edges []string, orphans []Span) {
	byID := make(map[string]Span, len(spans))
	for _, span := range spans {
		byID[span.ID] = span
	}
	seen := map[string]bool{}
	for _, span := range spans {
		if span.Parent == root {
			continue
		}
		parent, ok := byID[span.Parent]
		if !ok {
			orphans = append(orphans, span)
			continue
		}
		seen[fmt.Sprintf("%s: %s -> %s: %s", parent.Service, parent.Name, span.Service, span.Name)] = true
	}
	for edge := range seen {
		edges = append(edges, edge)
	}
	sort.Strings(edges)
	return edges, orphans
}

// Print returns the trace as an indented tree, for the output of a failed test.
func Print(spans []Span, root string) string {
	children := map[string][]Span{}
	for _, span := range spans {
		children[span.Parent] = append(children[span.Parent], span)
	}
	var b strings.Builder
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		for _, span := range children[parent] {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, span.Service, span.Name)
			walk(span.ID, indent+"  ")
		}
	}
	walk(root, "")
	return b.String()
}
