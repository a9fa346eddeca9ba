package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestChallenge: buyers buy through a proof of work. A pass is of use to its buyer and in its sale only, each challenge
// takes one answer over all processes, and the merchant changes kind and difficulty while the sale is open.
func TestChallenge(t *testing.T) {
	r := rig.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	pow := contract.Captcha{Kind: contract.CaptchaPow, Difficulty: 2}
	sale, other := shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300, Captcha: pow}),
		shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300, Captcha: pow})
	ann, bob := r.Client.As(mustToken(ctx, t, r, "ann")), r.Client.As(mustToken(ctx, t, r, "bob"))

	_, err := ann.NewPath(ctx, sale.ActivityID)
	require.Equal(t, contract.CodeCaptchaRequired, client.CodeOf(err))
	c, err := ann.NewCaptcha(ctx, sale.ActivityID, "", "")
	require.NoError(t, err)
	require.NotNil(t, c.Pow)
	payload, err := c.Pow.Solve(ctx)
	require.NoError(t, err)
	_, err = bob.AnswerPow(ctx, sale.ActivityID, c.CaptchaID, payload)
	require.Equal(t, contract.CodeNotFound, client.CodeOf(err))
	pass, err := ann.AnswerPow(ctx, sale.ActivityID, c.CaptchaID, payload)
	require.NoError(t, err)
	_, err = ann.AnswerPow(ctx, sale.ActivityID, c.CaptchaID, payload)
	require.Equal(t, contract.CodeCaptchaWrong, client.CodeOf(err))

	for _, misuse := range []func() error{
		func() error { _, err := bob.NewPathWith(ctx, sale.ActivityID, "", pass); return err },
		func() error { _, err := ann.NewPathWith(ctx, other.ActivityID, "", pass); return err },
	} {
		require.Equal(t, contract.CodeCaptchaRequired, client.CodeOf(misuse()))
	}
	_, err = ann.NewPathWith(ctx, sale.ActivityID, "", pass)
	require.NoError(t, err)
	a := purchase.Buy(ctx, bob, "bob", sale.ActivityID, sale.Lines())
	require.Equal(t, purchase.Accepted, a.Outcome, "%v", a.Err)

	// Puzzles are drawn once an activity has them.
	require.NoError(t, sale.Merchant.SetCaptcha(ctx, sale.ActivityID, contract.CaptchaSlide, 3))
	_, err = purchase.Await(ctx, func(ctx context.Context) (client.Captcha, error) {
		return ann.NewCaptcha(ctx, sale.ActivityID, "", "")
	}, func(c client.Captcha) bool { return c.Kind == contract.CaptchaSlide })
	require.NoError(t, err)
	work, err := ann.NewCaptcha(ctx, sale.ActivityID, contract.CaptchaPow, "")
	require.NoError(t, err)
	require.EqualValues(t, 8*3000, work.Pow.MaxNumber)
	require.NoError(t, sale.Merchant.SetCaptcha(ctx, sale.ActivityID, contract.CaptchaNone, 0))
	require.Eventually(t, func() bool {
		_, err := r.Client.As(mustToken(ctx, t, r, "eve")).NewPath(ctx, sale.ActivityID)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	sale.StockBecomes(t, 9, 1, 0, time.Minute)
}
