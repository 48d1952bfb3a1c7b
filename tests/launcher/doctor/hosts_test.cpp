#include "launcher/doctor/hosts.h"

#include <gmock/gmock.h>

#include <fstream>

#include "zero/errors.h"

namespace zero::launcher::hosts_test {
namespace {

using ::testing::HasSubstr;

class Hosts : public ::testing::Test {
 protected:
  // `agent` stands in for ssh.
  Finding look_at(const std::string& host, const std::string& agent) {
    std::ofstream(path_) << "# ours\n" << host << " slots=2\n";
    const Findings findings = look_at_hosts(
        path_, {"OMPI_MCA_plm_rsh_agent=" + agent + " : rsh", "PATH=/usr/bin:/bin"});
    return findings.size() == 1 ? findings[0] : Finding{};
  }

  const std::string path_ = ::testing::TempDir() + "/hosts";
};

TEST_F(Hosts, ThisOneNeedsNoSsh) {
  const Finding finding = look_at("localhost", "false");
  EXPECT_EQ(finding.mark, Mark::kOk);
  EXPECT_EQ(finding.name, "localhost");
}

TEST_F(Hosts, ANameThatLeadsNowhere) {
  const Finding finding = look_at("nohost.invalid", "true");
  EXPECT_EQ(finding.mark, Mark::kBad);
  EXPECT_THAT(finding.text, HasSubstr("its name leads nowhere"));
  EXPECT_THAT(finding.cure, HasSubstr("getent hosts nohost.invalid"));
}

TEST_F(Hosts, AreAskedForTheProgram) {
  EXPECT_EQ(look_at("10.1.2.3", "echo").mark, Mark::kOk);
  const Finding without = look_at("10.1.2.3", "false");
  EXPECT_EQ(without.mark, Mark::kBad);
  EXPECT_THAT(without.text, HasSubstr("there is no program /"));
}

TEST_F(Hosts, AnAgentThatIsNotThere) {
  EXPECT_THAT(look_at("10.1.2.3", "no_such_agent").text, HasSubstr("cannot be started"));
}

TEST_F(Hosts, WhatSshSaysIsTold) {
  const Finding refused =
      judge_reach("beta", "/opt/zero_launch", "ssh",
                  {255, false, "banner\nbeta: Permission denied (publickey).\n", 0.2});
  EXPECT_EQ(refused.mark, Mark::kBad);
  EXPECT_THAT(refused.text, HasSubstr("code 255: beta: Permission denied (publickey)."));
  EXPECT_THAT(refused.cure, HasSubstr("ssh-copy-id beta"));
  EXPECT_THAT(judge_reach("beta", "/p", "ssh", {143, true, "", 15}).text,
              HasSubstr("no answer in 15 s"));
}

TEST_F(Hosts, TheFirstThatIsBadStopsARun) {
  std::ofstream(path_) << "localhost\nnohost.invalid\n";
  try {
    require_hosts(path_, {"PATH=/usr/bin:/bin"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_THAT(error.problem(), HasSubstr("nohost.invalid: its name leads nowhere"));
  }
}

}  // namespace
}  // namespace zero::launcher::hosts_test
