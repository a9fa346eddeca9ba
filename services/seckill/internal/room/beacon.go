package room

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"flashsale.internal/pkg/draw"
)

// beaconDelay is the time from the closing of early joining to the beacon, within which the root is published. So the
// tickets are public before the beacon exists.
const beaconDelay = 15 * time.Second

// errBeaconNotYet means that the beacon does not exist yet.
var errBeaconNotYet = errors.New("the round of the beacon is not published yet")

// Beacon returns public randomness.
type Beacon interface {
	// After returns the first value that was published at that time or later.
	After(ctx context.Context, at time.Time) (draw.Beacon, error)
}

// Drand reads a chain of drand over HTTP. It does not verify signatures: readers of a draw compare its beacon with a
// source of their own.
type Drand struct {
	url  string // of the chain, without a slash at its end
	http *http.Client
}

// NewDrand returns the chain at this URL, such as https://api.drand.sh/<hash of the chain>.
func NewDrand(url string) *Drand {
	return &Drand{url: strings.TrimSuffix(url, "/"), http: &http.Client{Timeout: callTimeout}}
}

// After implements Beacon.
func (d *Drand) After(ctx context.Context, at time.Time) (draw.Beacon, error) {
	var info struct {
		Period      int64 `json:"period"` // seconds
		GenesisTime int64 `json:"genesis_time"`
	}
	if err := d.get(ctx, "/info", &info); err != nil {
		return nil, err
	}
	if info.Period < 1 || info.GenesisTime < 1 || at.Unix() < info.GenesisTime {
		return nil, fmt.Errorf("beacon: period %d s and genesis %d are not usable", info.Period, info.GenesisTime)
	}
	// Round 1 is that of the genesis.
	since := at.Unix() - info.GenesisTime
	round := (since+info.Period-1)/info.Period + 1
	var value struct {
		Round      int64     `json:"round"`
		Randomness draw.Hash `json:"randomness"`
	}
	if err := d.get(ctx, fmt.Sprintf("/public/%d", round), &value); err != nil {
		return nil, err
	}
	if value.Round != round {
		return nil, fmt.Errorf("beacon: requested round %d, got %d", round, value.Round)
	}
	return value.Randomness[:], nil
}

// maxBeaconBody bounds a response.
const maxBeaconBody = 64 << 10

func (d *Drand) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return fmt.Errorf("beacon: %w", err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("beacon: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusTooEarly:
		return errBeaconNotYet
	default:
		return fmt.Errorf("beacon: %s responds %s", path, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBeaconBody)).Decode(into); err != nil {
		return fmt.Errorf("beacon: %s: %w", path, err)
	}
	return nil
}
