package core

import (
	"fmt"

	"flashsale.internal/pkg/contract"
)

// Quotas bound what each merchant may have.
type Quotas struct {
	Activities int64 // scheduled, open or paused activities; drafts and ended ones do not count
	SKUs       int64
}

// Growth is how many objects a change adds to what a quota counts. The store counts the objects of their merchant
// under a lock of that merchant and calls Check before it commits.
type Growth struct {
	what       string
	adds, most int64
}

// Adds reports whether the change adds anything. If it does not, no quota applies.
func (g Growth) Adds() bool { return g.adds > 0 }

// Check refuses with quota_exceeded if the merchant, who has used objects, would have more than the quota allows.
func (g Growth) Check(used int64) error {
	if used+g.adds <= g.most {
		return nil
	}
	return contract.Refuse(contract.CodeQuotaExceeded, fmt.Sprintf("a merchant may have %d %s", g.most, g.what)).
		With("limit", g.most).With("used", used)
}

// moreActivities is the growth by one published activity.
func (q Quotas) moreActivities() Growth {
	return Growth{"scheduled, open or paused activities", 1, q.Activities}
}

// moreSKUs is the growth by n SKUs.
func (q Quotas) moreSKUs(n int) Growth { return Growth{"SKUs", int64(n), q.SKUs} }
