// Command fairness runs the population model and prints its tables, or writes them into docs/fairness.md.
//
//	go run ./fairness/cmd/fairness [-write ../docs/fairness.md]
package main

import (
	"flag"
	"fmt"
	"os"

	"flashsale.internal/test/fairness"
)

func main() {
	into := flag.String("write", "", "the page whose tables are to be replaced")
	seeds := flag.Int("seeds", fairness.Seeds, "runs of each row")
	scale := flag.Int("scale", 1, "ratio by which to make the population smaller")
	flag.Parse()
	if err := run(*into, *seeds, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

func run(into string, seeds, scale int) error {
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
		{fairness.PartSmall, small},
	}
	if into == "" {
		for _, p := range parts {
			fmt.Printf("%s\n", p.text)
		}
		return nil
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
