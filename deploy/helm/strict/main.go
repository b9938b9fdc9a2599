// Strict reads manifests from standard input and checks each against the Go types of Kubernetes' own API: a field that
// is unknown, repeated, or of another type is an error. Other kinds are named and skipped. It needs no cluster, and
// does not check values: only a server checks that a port is in its range.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := check(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "strict:", err)
		os.Exit(1)
	}
}

func check(in io.Reader, out io.Writer) error {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			return err
		}
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for seen := 0; ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			if seen == 0 {
				return errors.New("no manifest in what was given")
			}
			return nil
		}
		if err != nil {
			return err
		}
		var head struct {
			runtime.TypeMeta `json:",inline"`
			Metadata         struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			return err
		}
		if head.Kind == "" {
			continue // comments alone
		}
		seen++
		what := fmt.Sprintf("%s %s %s", head.APIVersion, head.Kind, head.Metadata.Name)
		object, err := kinds.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
		if runtime.IsNotRegisteredError(err) {
			fmt.Fprintln(out, "    not Kubernetes' own:", what)
			continue
		}
		if err != nil {
			return err
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		fmt.Fprintln(out, "    in order:", what)
	}
}
