package sim

import (
	"context"
	"net/http"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

// solve solves a challenge of the activity and returns the pass; "" if there is none.
func (b *caller) solve(act *activity, ticket string) string {
	base := "http://seckill/v1/activities/" + act.id + "/captchas"
	for range 6 { // a challenge takes one answer, whose response may be lost
		a := b.insist(http.MethodPost, base, "", entry{RoomTicket: ticket}, 12)
		var c client.Challenge
		if a.status != http.StatusCreated {
			return ""
		}
		if err := a.into(&c); err != nil || c.Pow == nil {
			b.w.fail("challenge of %s: %s (%v)", act.id, a.raw, err)
			return ""
		}
		payload, err := c.Pow.Solve(context.Background())
		if err != nil {
			b.w.fail("challenge of %s: %v", act.id, err)
			return ""
		}
		wrong := b.r.IntN(4) == 0
		if wrong {
			c.Pow.Challenge, payload = "", "e30="
		}
		a = b.call(http.MethodPost, base+"/"+c.ChallengeID+"/answers", "", map[string]any{"payload": payload})
		var got struct {
			Pass string `json:"captcha_pass"`
		}
		switch {
		case a.status == http.StatusCreated && a.into(&got) == nil:
			if wrong {
				b.w.fail("a wrong answer to a challenge of %s got a pass", act.id)
			}
			coverage.end("challenge solved")
			return got.Pass
		case a.code == string(contract.CodeChallengeWrong):
			coverage.end("challenge refused")
		}
	}
	return ""
}
