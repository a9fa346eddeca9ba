// Command dashboards writes the chart's dashboards.
//
//	go run ./cmd/dashboards [-dir ../../deploy/helm/flashsale/files/dashboards]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"flashsale.internal/test/chart/dashboards"
)

func main() {
	dir := flag.String("dir", "../../deploy/helm/flashsale/files/dashboards", "where they are written")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range dashboards.All() {
		text, err := d.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.Name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
