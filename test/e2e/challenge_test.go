package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// passOf returns the pass that seckill issues with this secret: version, end, and a MAC over purpose, both, activity and
// user, each part after its length.
func passOf(secret, activityID, userID string, end time.Time) string {
	signed := binary.BigEndian.AppendUint64([]byte{1}, uint64(end.Unix()))
	mac := hmac.New(sha256.New, []byte(secret))
	for _, part := range []string{"challenge pass", string(signed), activityID, userID} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(append(signed, mac.Sum(nil)[:16]...))
}

// challenge: buyers buy through a proof of work. A pass is of use to its buyer, in its sale and until its end only.
// Each challenge takes one answer over all processes, right or wrong. The merchant changes kind and difficulty while the
// sale is open.
func challenge(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	pow := contract.Challenge{Kind: contract.ChallengePow, Difficulty: 2}
	sale, other := shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300, Challenge: pow}),
		shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300, Challenge: pow})
	ann, bob := r.Client.As(mustToken(ctx, t, r, "ann")), r.Client.As(mustToken(ctx, t, r, "bob"))

	_, err := ann.NewPath(ctx, sale.ActivityID)
	require.Equal(t, contract.CodeChallengeRequired, client.CodeOf(err))
	c, err := ann.NewChallenge(ctx, sale.ActivityID, "", "")
	require.NoError(t, err)
	require.NotNil(t, c.Pow)
	payload, err := c.Pow.Solve(ctx)
	require.NoError(t, err)
	_, err = bob.AnswerPow(ctx, sale.ActivityID, c.ChallengeID, payload)
	require.Equal(t, contract.CodeNotFound, client.CodeOf(err))
	pass, err := ann.AnswerPow(ctx, sale.ActivityID, c.ChallengeID, payload)
	require.NoError(t, err)
	_, err = ann.AnswerPow(ctx, sale.ActivityID, c.ChallengeID, payload)
	require.Equal(t, contract.CodeChallengeWrong, client.CodeOf(err))

	// The solution of another challenge is wrong, and costs the challenge.
	second, err := ann.NewChallenge(ctx, sale.ActivityID, "", "")
	require.NoError(t, err)
	_, err = ann.AnswerPow(ctx, sale.ActivityID, second.ChallengeID, payload)
	require.Equal(t, contract.CodeChallengeWrong, client.CodeOf(err))
	right, err := second.Pow.Solve(ctx)
	require.NoError(t, err)
	_, err = ann.AnswerPow(ctx, sale.ActivityID, second.ChallengeID, right)
	require.Equal(t, contract.CodeChallengeWrong, client.CodeOf(err))

	for _, misuse := range []func() error{
		func() error { _, err := bob.NewPathWith(ctx, sale.ActivityID, "", pass); return err },
		func() error { _, err := ann.NewPathWith(ctx, other.ActivityID, "", pass); return err },
	} {
		require.Equal(t, contract.CodeChallengeRequired, client.CodeOf(misuse()))
	}
	_, err = ann.NewPathWith(ctx, sale.ActivityID, "", pass)
	require.NoError(t, err)
	// Passes last for ten minutes, so one with an early end is made here. The other shows that such passes are valid.
	_, err = bob.NewPathWith(ctx, sale.ActivityID, "", passOf(pathSecret, sale.ActivityID, "bob", time.Now().Add(time.Minute)))
	require.NoError(t, err)
	_, err = bob.NewPathWith(ctx, sale.ActivityID, "", passOf(pathSecret, sale.ActivityID, "bob", time.Now().Add(-time.Second)))
	require.Equal(t, contract.CodeChallengeRequired, client.CodeOf(err))
	a := purchase.Buy(ctx, bob, "bob", sale.ActivityID, sale.Lines())
	require.Equal(t, purchase.Accepted, a.Outcome, "%v", a.Err)

	// Images are drawn once an activity has them.
	require.NoError(t, sale.Merchant.SetChallenge(ctx, sale.ActivityID, contract.ChallengeClick, 3))
	_, err = purchase.Await(ctx, func(ctx context.Context) (client.Challenge, error) {
		return ann.NewChallenge(ctx, sale.ActivityID, "", "")
	}, func(c client.Challenge) bool { return c.Kind == contract.ChallengeClick })
	require.NoError(t, err)
	work, err := ann.NewChallenge(ctx, sale.ActivityID, contract.ChallengePow, "")
	require.NoError(t, err)
	require.EqualValues(t, 8*3000, work.Pow.MaxNumber)
	require.NoError(t, sale.Merchant.SetChallenge(ctx, sale.ActivityID, contract.ChallengeNone, 0))
	require.Eventually(t, func() bool {
		_, err := r.Client.As(mustToken(ctx, t, r, "eve")).NewPath(ctx, sale.ActivityID)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	sale.StockBecomes(t, 9, 1, 0, time.Minute)
}
