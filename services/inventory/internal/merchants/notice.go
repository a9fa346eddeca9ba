package merchants

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// noticeTimeout bounds the attempt to show a notice during the call that writes it.
const noticeTimeout = 2 * time.Second

// notice changes the notice of an activity that has not ended. The time of a notice is that of its text.
func (p ActivityPatch) notice(a *core.Activity, now time.Time) error {
	if p.Notice == nil {
		return nil
	}
	if _, ended := a.EndedSince(now); ended && a.State != core.ActivityDraft {
		return contract.Refuse(contract.CodeActivityEnded, "the activity has ended")
	}
	if err := contract.CheckText("notice", *p.Notice, noticeLine); err != nil {
		return err
	}
	switch {
	case *p.Notice == "":
		a.Notice = nil
	case a.Notice == nil || a.Notice.Text != *p.Notice:
		a.Notice = &core.Notice{Text: *p.Notice, At: core.Milliseconds(now)}
	}
	return nil
}

// onlyNotice reports whether the patch changes nothing but the notice.
func (p ActivityPatch) onlyNotice() bool {
	if p.Notice == nil {
		return false
	}
	p.Notice, p.IfVersion = nil, nil
	return len(p.detail()) == 0
}

// showNotice writes the notice into the sale document. The gate enforces nothing of it, so the change has succeeded
// without the gate: the gate controller, or the modes of a redisless sale, show the notice later.
func (s *Service) showNotice(ctx context.Context, a *core.Activity) {
	bounded, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := s.Gates.SyncActivity(bounded, a); err != nil {
		s.Recorder.Warn(ctx, "notice not shown yet", fmt.Errorf("activity %s: %w", a.ID, err))
	}
}
