package faults

import "wopcert/requirements"

// refusedNotFound are requirements of other areas that ask for a refusal with 404:
// what is wrong with every such refusal breaks them too.
func refusedNotFound() []requirements.ID {
	return []requirements.ID{
		requirements.WebhooksUnregisterUnknown, requirements.WebhooksDeadLetterUnregistered, requirements.WebhooksRotationRefused,
		requirements.InterruptUnknownNode, requirements.R0213ResolveUnknownRun, requirements.ReplaySourceNotVisible,
		requirements.IdempotencyEffectsReadRefused, requirements.R0173CompensationReadProjectionNotFound,
	}
}

// storedReplays are requirements whose tests read a finished run to store it anew
// with a difference: a log that cannot be read back leaves them nothing to store.
func storedReplays() []requirements.ID {
	return []requirements.ID{
		requirements.ReplayVersionPin, requirements.ReplayDivergedReported, requirements.ReplayDivergedContinues,
		requirements.ReplayDivergedStreamed, requirements.ReplayPureNodesLive,
	}
}

// oddLogs are requirements whose tests store a log without any oddity beside an odd
// one: a host that does not show the first as it is says nothing by the second.
func oddLogs() []requirements.ID {
	return []requirements.ID{
		requirements.EventsEra2NothingDropped, requirements.PersistenceMalformedNotDefaulted, requirements.R0176UnmappedTypeRefused,
		requirements.PersistenceUnregisteredOrgRefused, requirements.PersistenceV2NameRefused,
	}
}
