// Command fairness runs the population model and prints its tables, or writes them into docs/fairness.md, and those of
// the small population into a file of their own.
//
//	go run ./fairness/cmd/fairness [-write ../docs/fairness.md -small fairness/testdata/small.txt]
package main

import (
	"flag"
	"fmt"
	"os"

	"flashsale.internal/test/fairness"
)

func main() {
	into := flag.String("write", "", "the page whose tables are to be replaced")
	smallInto := flag.String("small", "", "with -write, the file for the tables of the small population")
	seeds := flag.Int("seeds", fairness.Seeds, "runs of each row")
	scale := flag.Int("scale", 1, "ratio by which to make the population smaller")
	flag.Parse()
	if err := run(*into, *smallInto, *seeds, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

func run(into, smallInto string, seeds, scale int) error {
	controls, err := fairness.Simulate(fairness.ControlScenarios(), seeds, scale)
	if err != nil {
		return err
	}
	sensitivity, err := fairness.Simulate(fairness.SensitivityScenarios(), seeds, scale)
	if err != nil {
		return err
	}
	small, err := fairness.Small()
	if err != nil {
		return err
	}
	parts := []struct{ part, text string }{
		{fairness.PartParameters, fairness.ParameterTable(fairness.Defaults())},
		{fairness.PartControls, fairness.Table("Controls that are on", controls)},
		{fairness.PartSensitivity, fairness.Table("All controls on, with", sensitivity)},
	}
	if into == "" {
		for _, p := range parts {
			fmt.Printf("%s\n", p.text)
		}
		fmt.Printf("%s\n", small)
		return nil
	}
	if smallInto != "" {
		if err := os.WriteFile(smallInto, []byte(small), 0o644); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(into)
	if err != nil {
		return err
	}
	text := string(page)
	for _, p := range parts {
		if text, err = fairness.Replace(text, p.part, p.text); err != nil {
			return err
		}
	}
	return os.WriteFile(into, []byte(text), 0o644)
}
