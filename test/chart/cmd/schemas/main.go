// Command schemas writes JSON schemas for the chart's objects, for each release of Kubernetes, from the API
// description in the Go module k8s.io/kubernetes, and those of the Prometheus operator from its module. The result is in
// the repository, so that the check needs no network.
//
//	go run ./cmd/schemas [-out schemas] v1.30.14 v1.34.4
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// kinds are the kinds of objects that the chart may contain.
var kinds = map[string][]string{
	"v1":                   {"ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"},
	"apps/v1":              {"Deployment", "StatefulSet"},
	"autoscaling/v2":       {"HorizontalPodAutoscaler"},
	"batch/v1":             {"Job"},
	"networking.k8s.io/v1": {"Ingress", "NetworkPolicy"},
	"policy/v1":            {"PodDisruptionBudget"},
}

// operator has the kinds of the Prometheus operator. Later versions need a newer Go.
const (
	operator        = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorVersion = "monitoring.coreos.com/v1"
)

var operatorKinds = map[string]string{"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}

type schema = map[string]any

func main() {
	out := flag.String("out", "schemas", "the folder to write to")
	flag.Parse()
	if err := writeOperator(filepath.Join(*out, "prometheus-operator")); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
	for _, version := range flag.Args() {
		if err := write(filepath.Join(*out, version), version); err != nil {
			fmt.Fprintln(os.Stderr, "schemas:", err)
			os.Exit(1)
		}
	}
}

func write(dir, version string) error {
	definitions, err := load(version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for apiVersion, names := range kinds {
		for _, kind := range names {
			text, err := standalone(definitions, apiVersion, kind)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, fileName(apiVersion, kind)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileName returns the name that kubeconform expects: with the group without its domain.
func fileName(apiVersion, kind string) string {
	group, v, found := strings.Cut(apiVersion, "/")
	suffix := "-" + apiVersion
	if found {
		group, _, _ = strings.Cut(group, ".")
		suffix = "-" + group + "-" + v
	}
	return strings.ToLower(kind) + suffix + ".json"
}

// writeOperator writes the schemas of the definitions that the Prometheus operator installs.
func writeOperator(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for kind, plural := range operatorKinds {
		raw, err := file(operator, "example/prometheus-operator-crd/monitoring.coreos.com_"+plural+".yaml")
		if err != nil {
			return err
		}
		var definition struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			return err
		}
		top, _ := strict(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, func(string) {}).(schema)
		text, err := encode(top, operatorVersion, kind)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fileName(operatorVersion, kind)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file reads a file of a module.
func file(module, name string) ([]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", module, err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(downloaded.Dir, name))
}

// load reads the definitions of the API of that release.
func load(version string) (map[string]schema, error) {
	raw, err := file("k8s.io/kubernetes@"+version, "api/openapi-spec/swagger.json")
	if err != nil {
		return nil, err
	}
	var spec struct {
		Definitions map[string]schema `json:"definitions"`
	}
	return spec.Definitions, json.Unmarshal(raw, &spec)
}

// standalone is the schema of one kind with all that it refers to.
func standalone(all map[string]schema, apiVersion, kind string) ([]byte, error) {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	root := ""
	for name, s := range all {
		gvks, _ := s["x-kubernetes-group-version-kind"].([]any)
		for _, g := range gvks {
			if gvk, _ := g.(map[string]any); len(gvks) == 1 && gvk["kind"] == kind && gvk["group"] == group &&
				gvk["version"] == version {
				root = name
			}
		}
	}
	if root == "" {
		return nil, fmt.Errorf("the API has no %s %s", apiVersion, kind)
	}
	needed := map[string]schema{}
	var collect func(name string)
	collect = func(name string) {
		if _, ok := needed[name]; ok {
			return
		}
		needed[name] = nil
		needed[name], _ = strict(all[name], collect).(schema)
		if strings.HasSuffix(name, ".api.resource.Quantity") {
			needed[name] = schema{"type": []string{"string", "number"}}
		}
		if strings.HasSuffix(name, ".util.intstr.IntOrString") {
			needed[name] = schema{"type": []string{"string", "integer"}}
		}
	}
	collect(root)
	top := needed[root]
	delete(needed, root)
	top["definitions"] = needed
	return encode(top, apiVersion, kind)
}

// encode returns the schema of the objects of one kind as text.
func encode(top schema, apiVersion, kind string) ([]byte, error) {
	properties, _ := top["properties"].(schema)
	properties["apiVersion"] = schema{"enum": []string{apiVersion}}
	properties["kind"] = schema{"enum": []string{kind}}
	top["required"] = append(list(top["required"]), "apiVersion", "kind")
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(top)
	return text.Bytes(), err
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// strict copies a schema without descriptions, refuses unknown fields, and passes references to collect.
func strict(v any, collect func(string)) any {
	switch v := v.(type) {
	case schema:
		out := schema{}
		for key, x := range v {
			switch {
			case key == "description" &&
				isText(x), strings.HasPrefix(key, "x-kubernetes-"), key == "format", key == "default" &&
				v["type"] != nil:
				continue
			case key == "$ref" && isText(x):
				name := strings.TrimPrefix(x.(string), "#/definitions/")
				collect(name)
				out[key] = x
			default:
				out[key] = strict(x, collect)
			}
		}
		if _, ok := out["properties"]; ok && out["type"] == "object" && out["additionalProperties"] == nil {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = strict(x, collect)
		}
		return out
	default:
		return v
	}
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}
