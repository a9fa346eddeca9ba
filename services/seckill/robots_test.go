package seckill_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// Robots against the handlers. test/fairness computes with what they find: an image is a solution for
// contract.ChallengeImageUses accounts, wrong answers cost contract.ChallengePause, and nothing bounds how many
// accounts of a robot solve at the same time.

// point is a place in an image.
type point struct {
	X int64 `json:"x"`
	Y int64 `json:"y"`
}

// solution opens the id of a challenge with the secret of development: no response has the answer.
func (s *roomSale) solution(user string, c response) []point {
	s.Helper()
	key, err := hkdf.Key(sha256.New, []byte("development-only-secret-of-the-paths"), nil, "flashsale challenge id", 32)
	require.NoError(s, err)
	block, err := aes.NewCipher(key)
	require.NoError(s, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(s, err)
	raw, err := base64.RawURLEncoding.DecodeString(c.str("captcha_id"))
	require.NoError(s, err)
	plain, err := aead.Open(nil, raw[:12], raw[12:], []byte(s.id+"/"+user))
	require.NoError(s, err)
	var points []point
	for at := plain[10:]; len(at) > 0; at = at[4:] {
		points = append(points, point{int64(binary.BigEndian.Uint16(at)), int64(binary.BigEndian.Uint16(at[2:]))})
	}
	return points
}

// image requests an image until there is one, at half of the rate of challenge-per-user at most.
func (s *roomSale) image(user string, header ...string) (c response) {
	s.Helper()
	require.Eventually(s, func() bool {
		c = s.call("POST", s.at("/captchas"), s.token(user), nil, header...)
		if c.StatusCode == http.StatusTooManyRequests {
			return false
		}
		c.is(s, http.StatusCreated, "")
		return c.str("kind") == "click"
	}, time.Minute, 20*time.Millisecond)
	return c
}

// accounts returns the accounts of a robot.
func accounts(n int) (users []string) {
	for i := range n {
		users = append(users, "robot-"+strconv.Itoa(i))
	}
	return users
}

// A robot that answers without sight gets nine answers of an account in ten minutes, and from one address two for all
// accounts that were wrong once. Its answers name a column for each character, as the best without sight do.
func TestARobotWithoutSight(t *testing.T) {
	t.Parallel()
	const robots = 12
	blind := map[string]any{"points": []point{{32, 60}, {80, 60}, {128, 60}, {176, 60}}}
	for name, test := range map[string]struct {
		address func(i int) string
		answers int // most in ten minutes
	}{
		"an address for each account": {func(i int) string { return "198.51.100." + strconv.Itoa(i) }, 9 * robots},
		"one address":                 {func(int) string { return "198.51.100.1" }, robots + 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{cfg: func(c *config) { c.TrustedProxies = []string{"127.0.0.1/32"} }})
			s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
			begin, answers, passes := r.now(), 0, 0
			for _, after := range []int{0, 2, 6, 14, 30, 62, 126, 254, 510, 599} {
				r.setTime(begin.Add(time.Duration(after)*time.Second + 500*time.Millisecond))
				for i, user := range accounts(robots) {
					from := []string{"X-Forwarded-For", test.address(i)}
					var c response
					if after == 0 { // the first images are being drawn
						c = s.image(user, from...)
					} else {
						c = s.call("POST", s.at("/captchas"), s.token(user), nil, from...)
					}
					if c.StatusCode != http.StatusCreated {
						continue
					}
					a := s.call("POST", s.at("/captchas/"+c.str("captcha_id")+"/answers"), s.token(user), blind, from...)
					switch a.StatusCode {
					case http.StatusCreated:
						answers, passes = answers+1, passes+1
					case http.StatusForbidden:
						answers++
					default:
						a.is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
					}
				}
			}
			t.Logf("%d answers of %d accounts in ten minutes, %d passes", answers, robots, passes)
			require.GreaterOrEqual(t, answers, robots)
			require.LessOrEqual(t, answers, test.answers)
			require.LessOrEqual(t, passes, 1, "one in 2,000 answers at most is right")
		})
	}
}

// A robot that solves each image once and repeats the solution with its other accounts needs a solution for every four
// passes at least, also if no other buyer requests images.
func TestARobotThatSharesSolutions(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.Challenges.Images = 4 }})
	s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	solved, users, passes := map[string][]point{}, map[string][]string{}, 0
	for _, user := range accounts(40) {
		c := s.image(user)
		shown, _ := c.body["click"].(map[string]any)
		image, _ := shown["image"].(string)
		require.NotContains(t, users[image], user)
		if users[image] = append(users[image], user); solved[image] == nil {
			solved[image] = s.solution(user, c)
		}
		s.answer(user, c.str("captcha_id"), map[string]any{"points": solved[image]}).is(t, http.StatusCreated, "")
		passes++
	}
	t.Logf("%d passes for %d solutions", passes, len(solved))
	require.LessOrEqual(t, passes, contract.ChallengeImageUses*len(solved))
	for _, of := range users {
		require.LessOrEqual(t, len(of), contract.ChallengeImageUses)
	}
}

// A robot that solves in parallel: of the answers of one account at the same time, one is checked. Accounts that solve
// at the same time all get their passes.
func TestARobotThatSolvesInParallel(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	parallel := func(n int, answer func(i int) int) map[int]int {
		statuses := make([]int, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { statuses[i] = answer(i) })
		}
		wg.Wait()
		count := map[int]int{}
		for _, status := range statuses {
			count[status]++
		}
		return count
	}
	var ids []string
	for range 4 {
		ids = append(ids, s.image("ann").str("captcha_id"))
	}
	blind := map[string]any{"points": []point{{32, 60}, {80, 60}, {128, 60}, {176, 60}}}
	require.Equal(t, map[int]int{http.StatusForbidden: 1, http.StatusTooManyRequests: 3}, parallel(4, func(i int) int {
		a, err := r.try("POST", s.at("/captchas/"+ids[i]+"/answers"), s.token("ann"), blind)
		if err != nil {
			return 0
		}
		return a.StatusCode
	}))

	users := accounts(20)
	ids = nil
	var solutions [][]point
	for _, user := range users {
		c := s.image(user)
		ids, solutions = append(ids, c.str("captcha_id")), append(solutions, s.solution(user, c))
	}
	require.Equal(t, map[int]int{http.StatusCreated: 20}, parallel(20, func(i int) int {
		a, err := r.try("POST", s.at("/captchas/"+ids[i]+"/answers"), s.token(users[i]),
			map[string]any{"points": solutions[i]})
		if err != nil {
			return 0
		}
		return a.StatusCode
	}))
}

// A robot that requests images and answers none gets four for an account, from all addresses together, until one is
// answered. A proof of work is not refused. 200 buyers who share an address each get an image.
// TestHeldImagesAreBounded has the bound of an address.
func TestARobotThatHoldsImages(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.TrustedProxies = []string{"127.0.0.1/32"} }})
	s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	at := func(n int) []string { return []string{"X-Forwarded-For", "198.51.100." + strconv.Itoa(n)} }
	s.setTime(r.now()) // no image expires
	var last response
	for i := range 4 {
		last = s.image("robot", at(i)...)
	}
	refused := s.call("POST", s.at("/captchas"), s.token("robot"), nil, at(5)...)
	refused.is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Contains(t, refused.raw, "of this user")
	after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, after, 60, "when the first expires")
	s.call("POST", s.at("/captchas"), s.token("robot"), map[string]any{"kind": "pow"}).is(t, http.StatusCreated, "")
	s.answer("robot", last.str("captcha_id"), map[string]any{"points": s.solution("robot", last)}).
		is(t, http.StatusCreated, "")
	s.image("robot", at(6)...)

	for i := range 200 {
		s.image("office-"+strconv.Itoa(i), at(7)...)
	}
}

// A buyer who was wrong once and shares an address with robots has to wait before an image is spent, not after it was
// solved. These waits make no suspect: the wrong answer has counted.
func TestAPausedAddressGetsNoImage(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.TrustedProxies = []string{"127.0.0.1/32"} }})
	s := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	nat := []string{"X-Forwarded-For", "198.51.100.1"}
	begin := r.now()
	r.setTime(begin)
	other := withCaptcha(r, contract.ChallengeClick, -time.Minute)
	for range 4 { // then there are images for all, so that no one requests too often
		other.image("dan")
	}
	wrong := map[string]any{"points": []point{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}
	for _, user := range append(accounts(5), "ann") {
		c := s.image(user, nat...)
		s.call("POST", s.at("/captchas/"+c.str("captcha_id")+"/answers"), s.token(user), wrong, nat...).
			is(t, http.StatusForbidden, contract.CodeChallengeWrong)
	}
	held := s.image("bob", nat...)
	r.setTime(begin.Add(15 * time.Second)) // the pauses of users are over, that of the address is not
	for range 60 {
		refused := s.call("POST", s.at("/captchas"), s.token("ann"), nil, nat...)
		refused.is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
		require.Contains(t, refused.raw, "the last answer was wrong")
		after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.Greater(t, after, 20)
	}
	s.image("cat", nat...)
	s.image("ann", "X-Forwarded-For", "198.51.100.2")
	s.call("POST", s.at("/captchas/"+held.str("captcha_id")+"/answers"), s.token("bob"),
		map[string]any{"points": s.solution("bob", held)}, nat...).is(t, http.StatusCreated, "")
	s.image("ann", nat...) // a right answer ends the pause

	r.stop() // adds the counts
	got, err := r.gate.Suspects(t.Context(), s.id)
	require.NoError(t, err)
	for _, of := range append(got.Users, got.Addresses...) {
		require.Zero(t, of.RateLimited, of.Key)
	}
	require.Len(t, got.Users, 6)
}
