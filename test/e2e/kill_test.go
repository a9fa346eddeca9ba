package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/e2e/rig"
	"flashsale.internal/tools/client"
)

// How a sale under kills is set up. Buyers come all the time, so that at any moment some buy, some pay, some run out and
// some buy what came back.
const (
	killPieces    = 700
	killPayWithin = 20 * time.Second
	killArrivals  = 25 // buyers a second
	killBuyersMin = 1000
	killBuyersMax = 6000
)

// Each service is killed twice while buyers buy, pay, and let their orders run out.
func TestKilledServices(t *testing.T) {
	r := rig.Start(t, repairSoon()...)
	var victims []victim
	for _, p := range r.Processes() {
		victims = append(victims, victim{name: p.Name, kill: p.Kill, start: func(t testing.TB) {
			p.Start(t)
			p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, 30*time.Second)
		}})
	}
	sellUnderKills(t, r, append(victims, victims...))
}

// Each of the real parts is killed once.
func TestKilledParts(t *testing.T) {
	parts := rig.OwnParts(t, 3500)
	r := rig.New(t, append(repairSoon(), parts.Option())...)
	parts.Do(t, "up")
	parts.MakeDatabases(t)
	r.PrepareBroker(t)
	r.Migrate(t)
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", http.StatusOK, 30*time.Second)
	var victims []victim
	for _, name := range []string{"redis", "mariadb", "namesrv", "broker"} {
		victims = append(victims, victim{
			name:  name,
			kill:  func(t testing.TB) { parts.Do(t, "kill", name) },
			start: func(t testing.TB) { parts.Do(t, "up", name) },
		})
	}
	sellUnderKills(t, r, victims)
}

// sellUnderKills runs a sale, kills one victim after the other at random moments, and then takes stock: nothing that was
// accepted is lost or doubled, nothing is sold twice, everything unpaid came back and can be bought.
func sellUnderKills(t *testing.T, r *rig.Rig, victims []victim) {
	t.Helper()
	seed := killSeed(t)
	t.Logf("seed %d (KILL_SEED repeats it)", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })

	// Buyers do not give up, so whatever they are refused for good is a defect.
	r.Client = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 5 * time.Second, Attempts: 100})
	t.Cleanup(r.Client.Close)
	sale := openSale(t, r, Sale{Stock: killPieces, PayWithinS: int64(killPayWithin / time.Second)})
	canaries := openSale(t, r, Sale{Stock: 100, PayWithinS: 600})

	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	s := &shop{
		sale: sale, client: r.Client, arrivals: killArrivals, least: killBuyersMin, most: killBuyersMax,
		pays: rand.New(rand.NewPCG(seed, 1)),
	}
	_, closeDoors := s.open(ctx)
	watched := s.watch(ctx)

	for i, v := range victims {
		require.NoError(t, until(ctx, time.Now().Add(between(rnd, 2*time.Second, 5*time.Second))))
		killed := time.Now()
		v.kill(t)
		require.NoError(t, until(ctx, time.Now().Add(between(rnd, time.Second, 3*time.Second))))
		started := time.Now()
		v.start(t)
		back := time.Now()
		buyOneToTheEnd(t, r, canaries, fmt.Sprintf("canary-%d-%d", seed, i))
		served := time.Now()
		waiting := -1
		require.Eventually(t, func() bool {
			waiting = s.notLanded(back)
			return waiting == 0
		}, 90*time.Second, 50*time.Millisecond, "%s: purchases accepted before it was back are still queued", v.name)
		t.Logf("%-9s killed, away %s, usable %s later; %d purchases accepted meanwhile; a new one was bought and paid %s after that, and all accepted before were orders after %s",
			v.name, started.Sub(killed).Round(time.Millisecond), back.Sub(started).Round(time.Millisecond), s.acceptedIn(killed, back),
			served.Sub(back).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}
	require.NoError(t, closeDoors(), "what a buyer was told")
	require.NoError(t, watched(), "what the stock view showed")
	s.settle(t, r)
	canaries.stockBecomes(t, 100-int64(len(victims)), 0, int64(len(victims)), 30*time.Second)
	letters, err := operator(t, r).DeadLetters(ctx)
	require.NoError(t, err)
	require.Empty(t, letters, "no outage makes a dead letter")
	for _, p := range r.Processes() {
		noAlarms(t, p)
	}
}
