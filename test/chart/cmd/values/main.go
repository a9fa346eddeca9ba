// Command values makes the table of docs/kubernetes.md from the comments in the charts' values.yaml. It prints the
// table or writes it into the page.
//
//	go run ./cmd/values [-write ../../docs/kubernetes.md]
package main

import (
	"flag"
	"fmt"
	"os"

	"flashsale.internal/test/chart/valuedocs"
)

func main() {
	into := flag.String("write", "", "the page whose table is to be replaced")
	charts := flag.String("chart", "../../deploy/helm/flashsale", "the chart")
	flag.Parse()
	if err := run(*charts, *into); err != nil {
		fmt.Fprintln(os.Stderr, "values:", err)
		os.Exit(1)
	}
}

func run(chart, into string) error {
	table, err := valuedocs.Table(chart)
	if err != nil {
		return err
	}
	if into == "" {
		_, err = fmt.Print(table)
		return err
	}
	page, err := os.ReadFile(into)
	if err != nil {
		return err
	}
	text, err := valuedocs.Replace(string(page), table)
	if err != nil {
		return err
	}
	return os.WriteFile(into, []byte(text), 0o644)
}
