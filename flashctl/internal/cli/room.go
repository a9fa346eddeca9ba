package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"flashsale.internal/pkg/draw"
)

type roomCmd struct {
	Verify roomVerifyCmd `cmd:"" help:"Recompute every place of a published draw; fails if a published value is wrong."`
}

type roomVerifyCmd struct {
	Draw    string `arg:"" help:"URL or file of the draw (GET /v1/activities/{activity_id}/room/draw)."`
	Tickets string `arg:"" optional:"" help:"URL or file of its tickets; by default the tickets_url of the draw."`
	Places  string `help:"File to write: a line for each ticket, with sequence number and place."`
}

// fetchTimeout is the time-out for one document; a million tickets are 65 MB.
const fetchTimeout = 5 * time.Minute

// Run needs no token: a draw is public.
func (c *roomVerifyCmd) Run(e env) error {
	var published draw.Published
	err := readDocument(e.ctx, c.Draw, func(r io.Reader) (err error) {
		published, err = draw.ParsePublished(r)
		return err
	})
	if err != nil {
		return err
	}
	source, err := c.tickets(published)
	if err != nil {
		return err
	}
	var tickets []draw.Hash
	if err := readDocument(e.ctx, source, func(r io.Reader) (err error) {
		tickets, err = draw.ParseTickets(r)
		return err
	}); err != nil {
		return err
	}
	places, err := draw.Verify(published, tickets)
	if err != nil {
		return err
	}
	if c.Places != "" {
		if err := writePlaces(c.Places, places); err != nil {
			return err
		}
	}
	beacon := "no beacon, so the draw trusts the operator"
	if len(published.Beacon) > 0 {
		text, _ := published.Beacon.MarshalText()
		beacon = "beacon " + string(text) + ", to be compared with its public source"
	}
	lost := 0
	for _, commitment := range tickets {
		if commitment == draw.Lost {
			lost++
		}
	}
	count := fmt.Sprintf("%d places", len(places))
	if lost > 0 {
		count += fmt.Sprintf(", %d of tickets that were lost before the draw", lost)
	}
	_, err = fmt.Fprintf(e.out, "activity %s: key, root and seed match; %s; %s\n", published.ActivityID, count, beacon)
	return err
}

// tickets returns the URL or file of the tickets.
func (c *roomVerifyCmd) tickets(p draw.Published) (string, error) {
	if c.Tickets != "" {
		return c.Tickets, nil
	}
	if !isURL(c.Draw) {
		return "", errors.New("a draw in a file needs the file of its tickets, too")
	}
	base, err := url.Parse(c.Draw)
	if err != nil {
		return "", err
	}
	if p.TicketsURL == "" {
		return "", errors.New("the draw has no tickets_url: it follows when early joining closes")
	}
	tickets, err := base.Parse(p.TicketsURL)
	if err != nil {
		return "", fmt.Errorf("tickets_url: %w", err)
	}
	return tickets.String(), nil
}

func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

// readDocument calls parse with the content of a URL or file.
func readDocument(ctx context.Context, source string, parse func(io.Reader) error) error {
	if !isURL(source) {
		f, err := os.Open(source) //nolint:gosec // named by the caller
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return sourceError(source, parse(f))
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responds %s", source, resp.Status)
	}
	return sourceError(source, parse(resp.Body))
}

func sourceError(source string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

func writePlaces(file string, places []int64) error {
	f, err := os.Create(file) //nolint:gosec // named by the caller
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i, place := range places {
		_, _ = fmt.Fprintf(w, "%d %d\n", i+1, place) // Flush returns its error
	}
	return cmp.Or(w.Flush(), f.Close())
}
