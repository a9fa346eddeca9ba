package fairness

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// pauses are the pauses of addresses after wrong answers to images, as services/seckill/internal/challenge has them.
type pauses map[string]*addressPause

type addressPause struct {
	wrong int64
	until time.Duration
}

// wrong counts a wrong answer and returns the pause of its user.
func (p pauses) wrong(a *account, now time.Duration) time.Duration {
	address := p[a.address]
	if address == nil {
		address = &addressPause{}
		p[a.address] = address
	}
	address.until = now + contract.ChallengePause(address.wrong)
	address.wrong++
	a.wrong++
	return contract.ChallengePause(a.wrong - 1)
}

// left returns the rest of the pause of the address, which holds for users who were wrong.
func (p pauses) left(a *account, now time.Duration) time.Duration {
	if address := p[a.address]; address != nil && a.wrong > 0 {
		return max(0, address.until-now)
	}
	return 0
}

// right ends what was counted for a user and the address.
func (p pauses) right(a *account) {
	a.wrong = 0
	delete(p, a.address)
}
