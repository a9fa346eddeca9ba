package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/flashctl/internal/storm"
)

type stormCmd struct {
	loadFlags
	Target      string        `help:"Address with http or https, host and port; seckill's address by default."`
	Remote      bool          `help:"Allow a target that is not on this machine."`
	CA          string        `name:"ca" type:"existingfile" help:"File of the certificates that TLS accepts."`
	Insecure    bool          `help:"Accept every certificate."`
	Connections int           `default:"1000" help:"New connections, with one path request of a distinct user each."`
	Within      time.Duration `default:"1s" help:"Time in which they are begun."`
	Processes   int           `default:"2" help:"Generator processes that share the connections."`
	Sources     int           `default:"8" help:"Source addresses, from 127.0.0.2."`
	Patience    time.Duration `default:"15s" help:"Time from the begin of a connection to its response."`
	Returning   int           `default:"0" help:"Percentage of connections with a TLS session from before the storm."`
	KeepOpen    bool          `default:"true" negatable:"" help:"Keep connections open until the last response."`
	Slow        int           `default:"0" help:"Further connections that read one byte a second."`
	HalfOpen    int           `default:"0" help:"Further connections that send nothing, or half a request."`
	Watch       time.Duration `default:"75s" help:"Time for which slow and half-open connections are kept open."`
	Stock       int64         `default:"1000" help:"Units of the new sale."`
}

// Validate is called by kong.
func (c *stormCmd) Validate() error {
	if c.Connections < 1 || c.Connections > storm.MaxConnections {
		return fmt.Errorf("%d connections: 1 to %d", c.Connections, storm.MaxConnections)
	}
	return nil
}

func (c *stormCmd) Run(e env) error {
	cl, err := e.connect(client.Options{})
	if err != nil {
		return err
	}
	defer cl.Close()
	plan := storm.Plan{
		Target: c.Target, Insecure: c.Insecure, Sources: c.Sources, Within: c.Within, Patience: c.Patience,
		Returning: c.Returning, KeepOpen: c.KeepOpen, Slow: c.Slow, HalfOpen: c.HalfOpen, Watch: c.Watch,
		Tokens: make([]string, c.Connections),
	}
	if plan.Target == "" {
		plan.Target = cl.Origins().Seckill
	}
	if !plan.Local() {
		if !c.Remote {
			return fmt.Errorf("%s is not on this machine; --remote allows it", plan.Target)
		}
		plan.Sources = 0
	}
	if c.CA != "" {
		if plan.CA, err = os.ReadFile(c.CA); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	processes := storm.Processes{N: c.Processes, Command: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, program, "load", "storm-part")
	}}
	if err := processes.Check(plan); err != nil {
		return err
	}
	_, err = c.test(e, cl, loadTest{
		stock: c.Stock, payWithin: 15 * time.Minute, perUser: 1, users: c.Connections,
		run: func(activityID, _ string, buyers []purchase.Buyer) (load.Report, error) {
			plan.ActivityID = activityID
			for i, b := range buyers {
				plan.Tokens[i] = b.Token()
			}
			return processes.Run(e.ctx, plan)
		},
	})
	return err
}

type stormPartCmd struct{}

// Run runs the part of a storm that standard input describes.
func (stormPartCmd) Run(e env) error { return storm.Serve(e.ctx, os.Stdin, e.out) }
