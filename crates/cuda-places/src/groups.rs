//! The check of whether a group has no members other than the user and root.

use std::fs;

/// Group identifiers below this one are assigned by the distribution. Debian gives `/usr/local` to
/// its group `staff` (50). `users`, the shared group of all users, is 100.
const FIRST_SHARED: u32 = if cfg!(target_os = "linux") { 100 } else { 0 };

/// Returns whether only `users` and root are members of the group `gid`, according to `/etc/passwd`
/// and `/etc/group`.
///
/// Distributions with user-private groups set the umask to 002, so most folders of a user there are
/// writable by a group whose only member is that user. The rule is the one by which `pam_umask`
/// chooses that umask: the group has the user's name and is the user's primary group. A group that
/// only a directory service knows is not private, because its members are not known here.
pub(crate) fn is_private(gid: u32, users: &[u32]) -> bool {
    if gid == 0 {
        return true;
    }
    let read = |path| fs::read(path).unwrap_or_default();
    let (passwd, group) = (read("/etc/passwd"), read("/etc/group"));
    is_private_in(
        &String::from_utf8_lossy(&passwd),
        &String::from_utf8_lossy(&group),
        gid,
        users,
    )
}

fn is_private_in(passwd: &str, group: &str, gid: u32, users: &[u32]) -> bool {
    let accounts: Vec<(&str, u32, u32)> = passwd
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, gid, ..] = fields[..] else {
                return None;
            };
            Some((name, uid.parse().ok()?, gid.parse().ok()?))
        })
        .collect();
    let is_allowed = |uid: u32| uid == 0 || users.contains(&uid);
    let mut is_known = false;
    let mut is_of_user = gid < FIRST_SHARED;
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, members] = fields[..] else {
            continue;
        };
        if number.parse() != Ok(gid) {
            continue;
        }
        is_known = true;
        let mut members = members.split(',').filter(|member| !member.is_empty());
        let has_others = members.any(|member| {
            !accounts
                .iter()
                .any(|&(account, uid, _)| account == member && is_allowed(uid))
        });
        if has_others {
            return false;
        }
        is_of_user |= accounts
            .iter()
            .any(|account| account.0 == name && account.2 == gid && users.contains(&account.1));
    }
    let is_primary_of_others = accounts
        .iter()
        .any(|&(_, uid, primary)| primary == gid && !is_allowed(uid));
    is_known && is_of_user && !is_primary_of_others
}

#[cfg(test)]
mod tests {
    use super::is_private_in;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
                          alice:x:1000:1000::/home/alice:/bin/sh\n\
                          bob:x:1001:1001::/home/bob:/bin/sh\n\
                          carol:x:1002:1500::/home/carol:/bin/sh\n\
                          dave:x:1003:1003::/home/dave:/bin/sh\n\
                          erin:x:1004:1003::/home/erin:/bin/sh\nbroken\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:\nmail:x:8:bob\nusers:x:100:\nalice:x:1000:alice\n\
                         bob:x:1001:alice\nshared:x:1500:\ndave:x:1003:\nbroken\n";

    #[test]
    fn only_a_group_without_other_members_is_private() {
        for (gid, user, expected) in [
            (1000, 1000, true),
            // Another user's group, and one that has another member.
            (1000, 1001, false),
            (1001, 1001, false),
            // A shared group, even if it is the user's primary group.
            (100, 1000, false),
            (1500, 1002, false),
            // The primary group of a second user.
            (1003, 1003, false),
            // Not listed.
            (4000, 4000, false),
        ] {
            let found = is_private_in(PASSWD, GROUP, gid, &[user]);
            assert_eq!(found, expected, "group {gid}, user {user}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_system_group_is_private_if_it_has_no_other_members() {
        assert!(is_private_in(PASSWD, GROUP, 50, &[1000]));
        assert!(!is_private_in(PASSWD, GROUP, 8, &[1000]));
        assert!(is_private_in(PASSWD, GROUP, 8, &[1001]));
    }
}
