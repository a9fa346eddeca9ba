package seckill_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/challenge"
)

// withCaptcha is a sale with a challenge that starts after startsIn.
func withCaptcha(r *rig, kind contract.ChallengeKind, startsIn time.Duration) *roomSale {
	s := &roomSale{rig: r}
	s.id = r.sale(100, func(c *stockgate.Config) {
		c.StartsAt, c.EndsAt = r.now().Add(startsIn), r.now().Add(startsIn+time.Hour)
		c.Challenge = contract.Challenge{Kind: kind, Difficulty: 1}
		s.cfg = *c
	})
	return s
}

func (s *roomSale) challenge(user string, body any) response {
	s.Helper()
	return s.call("POST", s.at("/captchas"), s.token(user), body)
}

func (s *roomSale) answer(user, id string, answer any) response {
	s.Helper()
	return s.call("POST", s.at("/captchas/"+id+"/answers"), s.token(user), answer)
}

func (s *roomSale) withPass(user, pass string) response {
	s.Helper()
	return s.call("POST", s.at("/paths"), s.token(user), map[string]any{"captcha_pass": pass})
}

// solve returns the payload of the solution of a proof of work.
func solve(t *testing.T, created response) string {
	t.Helper()
	pow, _ := created.body["pow"].(map[string]any)
	require.NotNil(t, pow, created.raw)
	most, _ := pow["max_number"].(float64)
	text := func(name string) string { s, _ := pow[name].(string); return s }
	found, err := altcha.SolveChallenge(text("challenge"), text("salt"), altcha.SHA256, int(most), 0, nil)
	require.NoError(t, err)
	require.NotNil(t, found)
	raw, err := json.Marshal(altcha.Payload{
		Algorithm: text("algorithm"), Challenge: text("challenge"), Number: int64(found.Number), Salt: text("salt"),
		Signature: text("signature"),
	})
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(raw)
}

func (s *roomSale) pass(user string) string {
	s.Helper()
	c := s.challenge(user, map[string]any{"kind": "pow"}).is(s, http.StatusCreated, "")
	return s.answer(user, c.str("captcha_id"), map[string]any{"payload": solve(s.T, c)}).
		is(s, http.StatusCreated, "").str("captcha_pass")
}

// A proof of work gives a pass, which only its buyer can use, only in its activity and until its end. A challenge takes
// one answer.
func TestProofOfWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := withCaptcha(r, contract.ChallengePow, -time.Minute)
	shown := s.call("GET", s.at(""), "", nil)
	require.Equal(t, true, shown.body["captcha"])
	require.NotEmpty(t, shown.str("captcha_opens_at"))

	s.withPass("ann", "").is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	c := s.challenge("ann", nil).is(t, http.StatusCreated, "")
	require.Equal(t, "pow", c.str("kind"))
	payload := map[string]any{"payload": solve(t, c)}
	id := c.str("captcha_id")
	s.answer("bob", id, payload).is(t, http.StatusNotFound, contract.CodeNotFound)
	other := withCaptcha(r, contract.ChallengePow, -time.Minute)
	other.answer("ann", id, payload).is(t, http.StatusNotFound, contract.CodeNotFound)
	s.answer("ann", id, map[string]any{}).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	pass := s.answer("ann", id, payload).is(t, http.StatusCreated, "").str("captcha_pass")
	s.answer("ann", id, payload).is(t, http.StatusForbidden, contract.CodeChallengeWrong)

	// The solution of another challenge is wrong, and costs the challenge.
	second := s.challenge("ann", nil)
	s.answer("ann", second.str("captcha_id"), payload).is(t, http.StatusForbidden, contract.CodeChallengeWrong)
	s.answer("ann", second.str("captcha_id"), map[string]any{"payload": solve(t, second)}).
		is(t, http.StatusForbidden, contract.CodeChallengeWrong)

	s.withPass("bob", pass).is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	other.withPass("ann", pass).is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	s.withPass("ann", pass[:len(pass)-1]+"_").is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	s.withPass("ann", pass).is(t, http.StatusCreated, "")
	s.withPass("ann", pass).is(t, http.StatusCreated, "")

	require.Eventually(t, func() bool {
		totals, err := r.gate.Totals(t.Context(), s.id)
		return err == nil && totals.Solved == 1 && totals.Failed == 3
	}, 30*time.Second, 20*time.Millisecond)

	late := s.challenge("ann", nil)
	r.setTime(r.now().Add(3 * time.Minute))
	s.answer("ann", late.str("captcha_id"), map[string]any{"payload": solve(t, late)}).
		is(t, http.StatusForbidden, contract.CodeChallengeWrong)
	r.setTime(r.now().Add(8 * time.Minute))
	s.withPass("ann", pass).is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	// A buyer cannot move the end of a pass.
	raw, err := base64.RawURLEncoding.DecodeString(pass)
	require.NoError(t, err)
	binary.BigEndian.PutUint64(raw[1:], uint64(r.now().Add(time.Hour).Unix()))
	s.withPass("ann", base64.RawURLEncoding.EncodeToString(raw)).is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	s.withPass("ann", s.pass("ann")).is(t, http.StatusCreated, "")
}

// Challenges open five minutes before the start, and a pass from before is valid at the start. Without a challenge there
// is nothing to solve.
func TestChallengesBeforeTheyOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := withCaptcha(r, contract.ChallengePow, time.Hour)
	early := s.challenge("ann", nil).is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	opens, err := time.Parse(time.RFC3339Nano, early.str("opens_at"))
	require.NoError(t, err)
	starts, err := time.Parse(time.RFC3339Nano, early.str("starts_at"))
	require.NoError(t, err)
	require.Equal(t, 5*time.Minute, starts.Sub(opens))
	s.startsIn(time.Minute)
	pass := s.pass("ann")
	s.withPass("ann", pass).is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	s.startsIn(-time.Minute)
	s.withPass("ann", pass).is(t, http.StatusCreated, "")

	plain := withCaptcha(r, contract.ChallengeNone, -time.Minute)
	plain.challenge("ann", nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	plain.withPass("ann", "").is(t, http.StatusCreated, "")
}

// In a sale with a waiting room, solving opens at admission.
func TestChallengeAndWaitingRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := &roomSale{rig: r}
	s.id = r.sale(100, func(c *stockgate.Config) {
		c.StartsAt, c.EndsAt, c.RoomRate = r.now().Add(time.Minute*3), r.now().Add(time.Hour), 100
		c.Challenge = contract.Challenge{Kind: contract.ChallengePow, Difficulty: 1}
		s.cfg = *c
	})
	require.NotContains(t, s.call("GET", s.at(""), "", nil).body, "captcha_opens_at")
	early := s.challenge("ann", nil).is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	require.Equal(t, early.str("starts_at"), early.str("opens_at"))
	ticket := s.join("ann")
	s.startsIn(-time.Minute)
	s.challenge("ann", nil).is(t, http.StatusForbidden, contract.CodeRoomRequired)
	require.Eventually(t, func() bool { return s.ticket("ann", ticket).str("state") == "admitted" }, 30*time.Second,
		20*time.Millisecond)
	c := s.challenge("ann", map[string]any{"room_ticket": ticket}).is(t, http.StatusCreated, "")
	pass := s.answer("ann", c.str("captcha_id"), map[string]any{"payload": solve(t, c)}).str("captcha_pass")
	s.withPass("ann", pass).is(t, http.StatusForbidden, contract.CodeRoomRequired)
	s.call("POST", s.at("/paths"), s.token("ann"), map[string]any{"room_ticket": ticket}).
		is(t, http.StatusForbidden, contract.CodeChallengeRequired)
	s.call("POST", s.at("/paths"), s.token("ann"), map[string]any{"room_ticket": ticket, "captcha_pass": pass}).
		is(t, http.StatusCreated, "")
}

// With CHALLENGE_WORK=accessible only buyers with that role may compute instead of seeing. All may where a proof of
// work is the challenge. While images are short, buyers wait, and get no proof of work instead.
func TestWorkForThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.Challenges.Images, c.Challenges.Work = 1, challenge.WorkForAccessible }})
	require.Equal(t, "accessible", r.call("GET", "/v1/config", "", nil).str("captcha_work"))
	work := map[string]any{"kind": "pow"}
	s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	s.challenge("ann", work).is(t, http.StatusForbidden, contract.CodeForbidden)
	short, users := 0, 0
	require.Eventually(t, func() bool {
		users++
		c := s.challenge("user-"+strconv.Itoa(users), nil)
		if c.StatusCode == http.StatusCreated {
			require.Equal(t, "click", c.str("kind"))
			return short > 0
		}
		c.is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
		short++
		return false
	}, 30*time.Second, time.Millisecond)
	accessible, err := auth.Mint(settings.DevelopmentAuthSecret,
		auth.Identity{UserID: "bob", Roles: []auth.Role{auth.Accessible}}, time.Hour)
	require.NoError(t, err)
	c := s.call("POST", s.at("/captchas"), accessible, work).is(t, http.StatusCreated, "")
	pass := s.answer("bob", c.str("captcha_id"), map[string]any{"payload": solve(t, c)}).is(t, http.StatusCreated, "")
	s.withPass("bob", pass.str("captcha_pass")).is(t, http.StatusCreated, "")

	computed := withCaptcha(r, contract.ChallengePow, -time.Minute)
	computed.challenge("cid", work).is(t, http.StatusCreated, "") // ann has used up her limit
}

// The kind may change while the sale is open. The response with an image has no answer, and a wrong answer costs the
// challenge and a pause. A proof of work remains possible, at a higher price.
func TestClicks(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := withCaptcha(r, contract.ChallengePow, -time.Minute)
	s.challenge("ann", map[string]any{"kind": "click"}).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	s.cfg.Version++
	s.cfg.Challenge.Kind = contract.ChallengeClick
	require.NoError(t, r.gate.Configure(t.Context(), s.id, s.cfg))
	require.Eventually(t, func() bool { return s.challenge("eve", nil).str("kind") == "click" }, 30*time.Second,
		50*time.Millisecond)
	c := s.image("ann")
	image, _ := c.body["click"].(map[string]any)
	require.Contains(t, image["image"], "data:image/jpeg;base64,")
	require.Contains(t, image["prompt"], "data:image/png;base64,")
	require.EqualValues(t, 4, image["count"])
	require.NotContains(t, image, "points")
	right := s.solution("ann", c)
	for _, bad := range []any{right[:3], append(right[:3:3], point{301, 1}), append(right[:3:3], point{1, -1})} {
		s.answer("ann", c.str("captcha_id"), map[string]any{"points": bad}).
			is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	}
	pass := s.answer("ann", c.str("captcha_id"), map[string]any{"points": right}).is(t, http.StatusCreated, "")
	s.withPass("ann", pass.str("captcha_pass")).is(t, http.StatusCreated, "")

	c, next := s.image("bob"), s.image("bob")
	right = s.solution("bob", c)
	swapped := []point{right[1], right[0], right[2], right[3]}
	s.answer("bob", c.str("captcha_id"), map[string]any{"points": swapped}).
		is(t, http.StatusForbidden, contract.CodeChallengeWrong)
	s.answer("bob", next.str("captcha_id"), map[string]any{"points": s.solution("bob", next)}).
		is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	s.challenge("bob", nil).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	r.setTime(r.now().Add(15 * time.Second))
	s.answer("bob", c.str("captcha_id"), map[string]any{"points": right}).
		is(t, http.StatusForbidden, contract.CodeChallengeWrong)
	s.answer("bob", next.str("captcha_id"), map[string]any{"points": s.solution("bob", next)}).
		is(t, http.StatusCreated, "")

	work := s.challenge("eve", map[string]any{"kind": "pow"})
	pow, _ := work.body["pow"].(map[string]any)
	require.EqualValues(t, 8000, pow["max_number"])
	s.withPass("eve", s.pass("eve")).is(t, http.StatusCreated, "")
}

// fakeProvider is a provider's service: it confirms each token once.
type fakeProvider struct {
	*httptest.Server
	mu     sync.Mutex
	tokens map[string]map[string]any // token -> verdict
	down   bool
}

func newFakeProvider(t *testing.T, secret string) *fakeProvider {
	t.Helper()
	f := &fakeProvider{tokens: map[string]map[string]any{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		verdict := f.tokens[r.PostFormValue("response")]
		if r.PostFormValue("secret") != secret {
			verdict = map[string]any{"success": false, "error-codes": []string{"invalid-input-secret"}}
		}
		if verdict == nil {
			verdict = map[string]any{"success": false, "error-codes": []string{"timeout-or-duplicate"}}
		}
		delete(f.tokens, r.PostFormValue("response"))
		_ = json.NewEncoder(w).Encode(verdict)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeProvider) confirms(token string, verdict map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[token] = verdict
}

func (f *fakeProvider) fail(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// A token of the widget counts for its site, its sale and its challenge, once. While the provider does not respond,
// buyers get a proof of work.
func TestProvider(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{challenge.Turnstile, challenge.HCaptcha} {
		t.Run(provider, func(t *testing.T) {
			f := newFakeProvider(t, "shared")
			r := newRig(t, setup{cfg: func(c *config) {
				c.PublicURL = "https://shop.example:8443"
				c.Challenges = challenge.Settings{
					Provider: provider, SiteKey: "site", Secret: "shared", VerifyURL: f.URL, Images: 1,
				}
			}})
			s := withCaptcha(r, contract.ChallengeProvider, -time.Minute)
			sent := 0
			try := func(change map[string]any) response {
				t.Helper()
				c := s.challenge("ann", nil).is(t, http.StatusCreated, "")
				widget, _ := c.body["widget"].(map[string]any)
				require.Equal(t, provider, widget["provider"], c.raw)
				verdict := map[string]any{"success": true, "hostname": "shop.example"}
				if provider == challenge.Turnstile {
					verdict["action"], verdict["cdata"] = widget["action"], c.str("captcha_id")
				}
				for name, value := range change {
					verdict[name] = value
				}
				sent++
				token := strings.Repeat("t", sent)
				f.confirms(token, verdict)
				return s.answer("ann", c.str("captcha_id"), map[string]any{"token": token})
			}
			s.withPass("ann", try(nil).is(t, http.StatusCreated, "").str("captcha_pass")).is(t, http.StatusCreated, "")
			try(map[string]any{"hostname": "other.example"}).is(t, http.StatusForbidden, contract.CodeChallengeWrong)
			try(map[string]any{"success": false}).is(t, http.StatusForbidden, contract.CodeChallengeWrong)
			if provider == challenge.Turnstile {
				try(map[string]any{"action": "login"}).is(t, http.StatusForbidden, contract.CodeChallengeWrong)
				try(map[string]any{"cdata": "another"}).is(t, http.StatusForbidden, contract.CodeChallengeWrong)
			}
			used := s.challenge("ann", nil)
			s.answer("ann", used.str("captcha_id"), map[string]any{"token": "t"}).
				is(t, http.StatusForbidden, contract.CodeChallengeWrong)

			f.fail(true)
			require.Eventually(t, func() bool {
				c := s.challenge("ann", nil).is(t, http.StatusCreated, "")
				if c.str("kind") == "pow" {
					return true
				}
				s.answer("ann", c.str("captcha_id"), map[string]any{"token": "any"}).
					is(t, http.StatusServiceUnavailable, contract.CodeUnavailable)
				return false
			}, 30*time.Second, time.Millisecond)
			s.withPass("ann", s.pass("ann")).is(t, http.StatusCreated, "")
			f.fail(false)
			require.Eventually(t, func() bool { return s.challenge("ann", nil).str("kind") == "provider" }, 30*time.Second,
				50*time.Millisecond)
			try(nil).is(t, http.StatusCreated, "")
		})
	}
}
