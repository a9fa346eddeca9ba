package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"flashsale.internal/flashctl/client"
)

type limitsCmd struct {
	List   limitsListCmd   `cmd:"" help:"List all limits in force, with counters over all processes."`
	Get    limitsGetCmd    `cmd:"" help:"Print one limit, with the keys that it refuses now."`
	Set    limitsSetCmd    `cmd:"" help:"Put a rule in force on all processes, or change fields of the present one."`
	Delete limitsDeleteCmd `cmd:"" help:"Take a limit out of force on all processes."`
	Revert limitsRevertCmd `cmd:"" help:"Put the rule of the services' files in force again."`

	Changes limitsChangesCmd `cmd:"" help:"Print who changed a limit, when, and the rules before and after."`

	Try limitsTryCmd `cmd:"" help:"Print the decision that a limit would make about a key now."`
}

type limitArg struct {
	Name string `arg:"" help:"Name of the limit."`
}

// operate calls do with an operator's caller.
func operate(e env, do func(o *client.Caller) error) error {
	o, err := e.as(operator())
	if err != nil {
		return err
	}
	defer o.Close()
	return do(o)
}

type limitsListCmd struct{}

func (*limitsListCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		all, err := o.Limits(e.ctx)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "NAME\tFROM\tALLOWED\tWAITED\tREFUSED\tRULE")
		for _, l := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", l.Name, l.Source, l.Allowed, l.Waited, l.Refused,
				ruleText(l.Rule))
		}
		return w.Flush()
	})
}

// ruleText returns a rule as JSON without its name.
func ruleText(rule json.RawMessage) string {
	if rule == nil || string(rule) == "null" {
		return "-"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(rule, &fields) != nil {
		return string(rule)
	}
	delete(fields, "name")
	text, err := json.Marshal(fields)
	if err != nil {
		return string(rule)
	}
	return string(text)
}

type limitsGetCmd struct{ limitArg }

func (c *limitsGetCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		l, err := o.Limit(e.ctx, c.Name)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		return enc.Encode(l)
	})
}

type limitsSetCmd struct {
	limitArg
	Fields []string `arg:"" help:"Fields as in the rules file: limit=500 per=1s key=user burst=10 ...; null removes one."`
	New    bool     `help:"Start from an empty rule instead of the present one."`
}

// Run changes the named fields and keeps the rest.
func (c *limitsSetCmd) Run(e env) error {
	change, err := ruleFields(c.Fields)
	if err != nil {
		return err
	}
	return operate(e, func(o *client.Caller) error {
		set := o.PatchLimit
		if c.New {
			set = o.PutLimit
		}
		version, err := set(e.ctx, c.Name, change)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s is set, version %d\n", c.Name, version)
		return err
	})
}

// ruleFields parses name=value. Numbers, booleans and null are converted.
func ruleFields(fields []string) (map[string]any, error) {
	rule := map[string]any{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not field=value", f)
		}
		if value == "null" {
			rule[name] = nil
		} else if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			rule[name] = n
		} else if x, err := strconv.ParseFloat(value, 64); err == nil {
			rule[name] = x
		} else if b, err := strconv.ParseBool(value); err == nil {
			rule[name] = b
		} else {
			rule[name] = value
		}
	}
	return rule, nil
}

type limitsDeleteCmd struct{ limitArg }

func (c *limitsDeleteCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		version, err := o.DeleteLimit(e.ctx, c.Name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s is deleted, version %d\n", c.Name, version)
		return err
	})
}

type limitsRevertCmd struct{ limitArg }

func (c *limitsRevertCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		version, err := o.RevertLimit(e.ctx, c.Name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s is reverted to the files, version %d\n", c.Name, version)
		return err
	})
}

type limitsChangesCmd struct{ limitArg }

func (c *limitsChangesCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		all, err := o.LimitChanges(e.ctx, c.Name)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "AT\tWHO\tWHAT\tBEFORE\tAFTER")
		for _, l := range all {
			before, after := ruleText(l.Details.Before), ruleText(l.Details.After)
			if l.Details.Before == nil {
				before, after = "?", ruleText(l.Details.Rule)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.At.Format(time.RFC3339), l.Actor, l.What, before, after)
		}
		return w.Flush()
	})
}

type limitsTryCmd struct {
	limitArg
	Key string `arg:"" optional:"" help:"Key; the parts of a composed key are joined by |."`
}

func (c *limitsTryCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		d, err := o.TryLimit(e.ctx, c.Name, c.Key)
		if err != nil {
			return err
		}
		return json.NewEncoder(e.out).Encode(d)
	})
}
