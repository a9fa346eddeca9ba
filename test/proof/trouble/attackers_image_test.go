package trouble

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/shop"
)

// solution opens the id of a challenge with the secret of development: it is what a person sees in the image.
func solution(activityID, user, challengeID string) (points []client.Point, err error) {
	key, _ := hkdf.Key(sha256.New, []byte("development-only-secret-of-the-paths"), nil, "flashsale challenge id", 32)
	block, _ := aes.NewCipher(key) // never fails with 32 bytes
	aead, _ := cipher.NewGCM(block)
	raw, err := base64.RawURLEncoding.DecodeString(challengeID)
	if err != nil || len(raw) < 12 {
		return nil, fmt.Errorf("id of a challenge: %q, %w", challengeID, err)
	}
	plain, err := aead.Open(nil, raw[:12], raw[12:], []byte(activityID+"/"+user))
	if err != nil {
		return nil, err
	}
	for at := plain[10:]; len(at) > 0; at = at[4:] {
		x, y := binary.BigEndian.Uint16(at), binary.BigEndian.Uint16(at[2:])
		points = append(points, client.Point{X: int64(x), Y: int64(y)})
	}
	return points, nil
}

// withImages opens a sale with images and waits until some are drawn. sees is a buyer who marks one at first sight and
// buys.
func (a *attacked) withImages(t *testing.T) (sale shop.Sale, sees func(context.Context, purchase.Buyer) error) {
	t.Helper()
	sale = shop.Open(t, a.r, shop.Sale{
		Stock: 10_000, PayWithinS: 600, Challenge: contract.Challenge{Kind: contract.ChallengeClick},
	})
	sees = func(ctx context.Context, b purchase.Buyer) error {
		image, err := b.NewChallenge(ctx, sale.ActivityID, "", "")
		if err != nil {
			return err
		}
		points, err := solution(sale.ActivityID, b.UserID, image.ChallengeID)
		if err != nil {
			return err
		}
		pass, err := b.AnswerImage(ctx, sale.ActivityID, image.ChallengeID, points)
		if err != nil {
			return err
		}
		path, err := b.NewPathWith(ctx, sale.ActivityID, "", pass)
		if err == nil {
			_, err = b.Reserve(ctx, sale.ActivityID, path.Path, sale.Lines())
		}
		return err
	}
	require.Eventually(t, func() bool {
		unused := map[string]bool{} // those that the fewest buyers got come first
		for _, b := range a.accounts(t, 3) {
			for range 4 {
				if image, err := b.NewChallenge(t.Context(), sale.ActivityID, "", ""); err == nil {
					unused[image.Click.Image] = true
				}
			}
		}
		return len(unused) == 12
	}, anyWithin, time.Second)
	return sale, sees
}

// blindRobot answers without sight, with twelve accounts of one address, which ignore the pauses. Its answer names a
// column for each character, as the best without sight does.
func (a *attacked) blindRobot(t *testing.T) {
	const lasts = 12 * time.Second // answers of an address are checked at 0 s, and after pauses of 2, 4 and 8 s
	sale, sees := a.withImages(t)
	robots, blind := a.accounts(t, 12), []client.Point{{X: 32, Y: 60}, {X: 80, Y: 60}, {X: 128, Y: 60}, {X: 176, Y: 60}}
	requests, answers := responses{n: map[int]int{}}, responses{n: map[int]int{}}
	served := a.meanwhile(t, sees, func() {
		until := time.Now().Add(lasts)
		require.NoError(t, purchase.Each(t.Context(), len(robots), len(robots), func(ctx context.Context, i int) error {
			for time.Now().Before(until) {
				image, err := robots[i].NewChallenge(ctx, sale.ActivityID, "", "")
				if requests.add(statusOf(err)); err == nil {
					_, err = robots[i].AnswerImage(ctx, sale.ActivityID, image.ChallengeID, blind)
					answers.add(statusOf(err))
				}
				time.Sleep(250 * time.Millisecond)
			}
			_, err := robots[i].NewPath(ctx, sale.ActivityID)
			assert.Equal(t, http.StatusForbidden, statusOf(err))
			return ctx.Err()
		}))
	})
	checked := answers.n[http.StatusForbidden] + answers.n[http.StatusCreated]
	assert.Positive(t, checked)
	assert.LessOrEqual(t, checked, len(robots)+4, "one answer of each account, then those of the address")
	assert.LessOrEqual(t, answers.n[http.StatusCreated], 1, "one in 2,000 answers at most is right")
	a.row(t, fmt.Sprintf("12 accounts for %s: images %v", lasts, requests.n), fmt.Sprintf("answers %v", answers.n), served)
}

// sharedSolution solves each image once and repeats the solution with its other accounts, which also use the challenge
// and the pass of the last one.
func (a *attacked) sharedSolution(t *testing.T) {
	const accounts = 80
	sale, _ := a.withImages(t)
	solved, uses := map[string][]client.Point{}, map[string]int{}
	served := a.meanwhile(t, a.buys, func() {
		var robots []purchase.Buyer
		var image client.Challenge
		pass := ""
		for range accounts {
			robot := a.accounts(t, 1)[0]
			require.EventuallyWithT(t, func(c *assert.CollectT) { // it waits for an image
				var err error
				image, err = robot.NewChallenge(t.Context(), sale.ActivityID, "", "")
				assert.NoError(c, err)
			}, time.Minute, 10*time.Millisecond)
			seen := image.Click.Image
			if uses[seen]++; uses[seen] == 1 {
				points, err := solution(sale.ActivityID, robot.UserID, image.ChallengeID)
				require.NoError(t, err)
				solved[seen] = points
			}
			var err error
			pass, err = robot.AnswerImage(t.Context(), sale.ActivityID, image.ChallengeID, solved[seen])
			require.NoError(t, err)
			robots = append(robots, robot)
		}
		require.NoError(t, purchase.Each(t.Context(), 16, accounts-1, func(ctx context.Context, i int) error {
			_, err := robots[i].AnswerImage(ctx, sale.ActivityID, image.ChallengeID, solved[image.Click.Image])
			assert.Equal(t, http.StatusNotFound, statusOf(err))
			_, err = robots[i].NewPathWith(ctx, sale.ActivityID, "", pass)
			assert.Equal(t, http.StatusForbidden, statusOf(err))
			return ctx.Err()
		}))
	})
	for _, n := range uses {
		assert.LessOrEqual(t, n, contract.ChallengeImageUses)
	}
	a.row(t, "80 accounts, few images", fmt.Sprintf("80 passes for %d solutions, 0 by the challenge and pass of another account",
		len(solved)), served)
}
