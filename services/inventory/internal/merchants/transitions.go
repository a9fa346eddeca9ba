package merchants

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Publish publishes a draft, if its merchant may have one more activity, and builds its gate. For a published activity
// it only syncs the gate and the sale document.
func (s *Service) Publish(ctx context.Context, by core.Caller, id string) (*core.Activity, error) {
	growth := s.Quotas.moreActivities()
	return s.transition(ctx, by, id, "publish", growth, func(a *core.Activity, now time.Time) (bool, error) {
		if _, ended := a.EndedSince(now); ended {
			return false, contract.Refuse(contract.CodeActivityEnded, "the activity has ended")
		}
		switch a.State {
		case core.ActivityDraft:
			if len(a.Items) == 0 {
				return false, contract.Refuse(contract.CodeStateConflict, "the activity has no items")
			}
			for i, it := range a.Items {
				if it.Archived {
					return false, archivedItem(i)
				}
			}
			if err := s.Payments.check(a); err != nil {
				return false, err
			}
			a.State = core.ActivityPublished
			return true, nil
		case core.ActivityPublished:
			return false, nil
		}
		return false, contract.Refuse(contract.CodeStateConflict, "the activity is paused: resume it")
	})
}

// Pause stops the sale until it is resumed.
func (s *Service) Pause(ctx context.Context, by core.Caller, id string) (*core.Activity, error) {
	return s.transition(ctx, by, id, "pause", Growth{}, liveStep(core.ActivityPublished, core.ActivityPaused))
}

// Resume resumes the sale of a paused activity.
func (s *Service) Resume(ctx context.Context, by core.Caller, id string) (*core.Activity, error) {
	return s.transition(ctx, by, id, "resume", Growth{}, liveStep(core.ActivityPaused, core.ActivityPublished))
}

func liveStep(from, to core.ActivityState) func(a *core.Activity, now time.Time) (bool, error) {
	return func(a *core.Activity, now time.Time) (bool, error) {
		if a.State == core.ActivityDraft {
			return false, contract.Refuse(contract.CodeStateConflict, "the activity is a draft: publish it first")
		}
		if _, ended := a.EndedSince(now); ended {
			return false, contract.Refuse(contract.CodeActivityEnded, "the activity has ended")
		}
		if a.State == to {
			return false, nil
		}
		if a.State != from {
			return false, contract.Refuse(contract.CodeStateConflict, fmt.Sprintf("the activity is %s", a.State))
		}
		a.State = to
		return true, nil
	}
}

// End ends an activity before its time. Accepted reservations stay valid.
func (s *Service) End(ctx context.Context, by core.Caller, id string) (*core.Activity, error) {
	return s.transition(ctx, by, id, "end", Growth{}, func(a *core.Activity, now time.Time) (bool, error) {
		switch a.State {
		case core.ActivityDraft:
			return false, contract.Refuse(contract.CodeStateConflict, "the activity is a draft")
		case core.ActivityEnded:
			return false, nil
		}
		a.State, a.EndedAt = core.ActivityEnded, &now
		return true, nil
	})
}

// transition writes the decision into the database first. If it returns no error, the gate has it too. If the gate
// cannot be reached, the decision stays valid, the refusal reports it, and the gate controller writes it into the
// gate.
//
// growth applies only if fn changes the activity.
func (s *Service) transition(
	ctx context.Context, by core.Caller, id, action string, growth Growth,
	fn func(a *core.Activity, now time.Time) (bool, error),
) (*core.Activity, error) {
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	c := core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "activity." + action, Object: "activity", ObjectID: id,
	}
	a, err := s.Deps.Activities.ChangeActivity(ctx, by.Scope(), id, c, growth, func(a *core.Activity) (bool, error) {
		write, err := fn(a, now)
		if write {
			a.Version++
			a.UpdatedAt = now
		}
		return write, err
	})
	if err != nil {
		return nil, err
	}
	return a, activityRefusal(s.Gates.SyncActivity(ctx, a), a)
}
