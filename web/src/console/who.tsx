// Who is signed in, and for which merchant.

import {useEffect} from 'preact/hooks'
import {getProfile} from '../api/merchant.ts'
import {hasRole, session} from '../base/app.ts'
import {Link} from '../base/parts.tsx'
import {signal} from '../base/signal.ts'
import {w} from './words.ts'

// sellerName is the name in the profile of the merchant of this session, "" while it is not known.
export const sellerName = signal('')

export function Who() {
  const {user_id = '', roles = [], merchant_id = ''} = session.value ?? {}
  const reads = hasRole('merchant') && merchant_id
  useEffect(() => {
    let left = false
    sellerName.value = ''
    if (reads) {
      void getProfile().then((r) => {
        if (r.ok && !left) sellerName.value = r.data.name
      })
    }
    return () => {
      left = true
    }
  }, [user_id, reads])
  const name = (role: string) => (role === 'merchant' || role === 'operator' ? w(`role_${role}`) : role)
  const roleNames = roles.filter((r) => r !== 'accessible').map(name)
  return (
    <p class="who small muted">
      {w('signed_in_as')} <bdi>{user_id}</bdi>
      {roleNames.map((name) => ` · ${name}`)}
      {' · '}
      {merchant_id ? <bdi>{sellerName.value ? `${sellerName.value} (${merchant_id})` : merchant_id}</bdi> : w('no_merchant')}
    </p>
  )
}

// merchantColumn is the column of a list that only operators need: merchants have only what is theirs.
export const merchantColumn = <T extends {merchant_id: string}>() =>
  hasRole('operator') ? [{title: w('merchant'), cell: (row: T) => <MerchantLink id={row.merchant_id} />}] : []

// MerchantLink leads operators to the profile of a merchant.
export function MerchantLink({id}: {id: string}) {
  return <Link href={`/console/profile?merchant_id=${encodeURIComponent(id)}`}>{id}</Link>
}
